"""Cuts the part of GitHub's own OpenAPI description that the fake GitHub serves.

    python -m tests.fake_github.vendor_openapi PACKAGE

PACKAGE is the unpacked npm package ``@octokit/openapi`` (``npm pack @octokit/openapi``). Written are
``vendored/openapi.json`` (the operations below, the bodies of ``WEBHOOKS``, and every component
they reach, without prose and examples), the package's licence text and ``vendored/openapi.source.json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

VENDORED = Path(__file__).parent / "vendored"

_REPO = "/repos/{owner}/{repo}"
OPERATIONS: dict[str, tuple[str, ...]] = {
    "/rate_limit": ("get",),
    "/user": ("get",),
    "/users/{username}": ("get",),
    _REPO: ("get",),
    f"{_REPO}/actions/artifacts/{{artifact_id}}": ("get",),
    f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": ("get",),
    f"{_REPO}/actions/runs": ("get",),
    f"{_REPO}/actions/runs/{{run_id}}": ("get",),
    f"{_REPO}/actions/runs/{{run_id}}/artifacts": ("get",),
    f"{_REPO}/actions/runs/{{run_id}}/attempts/{{attempt_number}}": ("get",),
    f"{_REPO}/actions/runs/{{run_id}}/jobs": ("get",),
    f"{_REPO}/actions/runs/{{run_id}}/rerun": ("post",),
    f"{_REPO}/actions/runs/{{run_id}}/rerun-failed-jobs": ("post",),
    f"{_REPO}/actions/workflows/{{workflow_id}}": ("get",),
    f"{_REPO}/actions/workflows/{{workflow_id}}/runs": ("get",),
    f"{_REPO}/check-runs": ("post",),
    f"{_REPO}/check-runs/{{check_run_id}}": ("get", "patch"),
    f"{_REPO}/check-runs/{{check_run_id}}/annotations": ("get",),
    f"{_REPO}/collaborators/{{username}}/permission": ("get",),
    f"{_REPO}/commits/{{commit_sha}}/pulls": ("get",),
    f"{_REPO}/commits/{{ref}}": ("get",),
    f"{_REPO}/commits/{{ref}}/check-runs": ("get",),
    f"{_REPO}/compare/{{basehead}}": ("get",),
    f"{_REPO}/contents/{{path}}": ("get",),
    f"{_REPO}/issues/comments": ("get",),
    f"{_REPO}/issues/comments/{{comment_id}}": ("get", "patch", "delete"),
    f"{_REPO}/issues/comments/{{comment_id}}/reactions": ("get", "post"),
    f"{_REPO}/issues/{{issue_number}}": ("get",),
    f"{_REPO}/issues/{{issue_number}}/comments": ("get", "post"),
    f"{_REPO}/pulls": ("get",),
    f"{_REPO}/pulls/{{pull_number}}": ("get",),
    f"{_REPO}/pulls/{{pull_number}}/files": ("get",),
}
WEBHOOKS = (
    "issue-comment-created",
    "issue-comment-edited",
    "merge-group-checks-requested",
    "pull-request-labeled",
    "pull-request-opened",
    "pull-request-synchronize",
    "push",
    "workflow-dispatch",
    "workflow-run-completed",
)
_OPERATION_KEYS = ("operationId", "parameters", "requestBody", "responses")
_PROSE = ("description", "summary", "example", "examples", "externalDocs", "x-github", "x-octokit")


def without_prose(node: Any, *, names: bool = False) -> Any:
    """``node`` without descriptions and examples; ``names``: its keys are names, not OpenAPI words."""
    if isinstance(node, dict):
        return {
            key: without_prose(value, names=key in ("properties", "schemas") and not names)
            for key, value in node.items()
            if names or key not in _PROSE
        }
    if isinstance(node, list):
        return [without_prose(item) for item in node]
    return node


def references(node: Any) -> set[tuple[str, str]]:
    """The (section, name) of every component that ``node`` refers to."""
    if isinstance(node, list):
        return set().union(*(references(item) for item in node)) if node else set()
    if not isinstance(node, dict):
        return set()
    found = set().union(*(references(value) for value in node.values())) if node else set()
    target = node.get("$ref")
    if isinstance(target, str):
        section, name = target.removeprefix("#/components/").split("/")
        found.add((section, name))
    return found


def operation(described: dict[str, Any]) -> dict[str, Any]:
    """One operation as it is vendored; ``description`` is required of a response by OpenAPI."""
    kept = without_prose({key: described[key] for key in _OPERATION_KEYS if key in described})
    for response in kept["responses"].values():
        response.pop("headers", None)
        if "$ref" not in response:
            response["description"] = ""
    return kept


def webhook(described: dict[str, Any]) -> Any:
    """The schema of a webhook's body."""
    return without_prose(described["post"]["requestBody"]["content"]["application/json"]["schema"])


def reached(components: dict[str, Any], start: Any) -> dict[str, dict[str, Any]]:
    """The components that ``start`` reaches, in order of their names."""
    kept: dict[tuple[str, str], Any] = {}
    todo = references(start)
    while todo:
        section, name = todo.pop()
        component = without_prose(components[section][name])
        if section == "responses":
            component = {"description": "", **component}
            component.pop("headers", None)
        kept[section, name] = component
        todo |= references(component) - kept.keys()
    sections: dict[str, dict[str, Any]] = {}
    for section, name in sorted(kept):
        sections.setdefault(section, {})[name] = kept[section, name]
    return sections


def cut(described: dict[str, Any]) -> dict[str, Any]:
    """The subset of GitHub's whole description that the fake needs."""
    paths = {
        path: {method: operation(described["paths"][path][method]) for method in methods}
        for path, methods in OPERATIONS.items()
    }
    webhooks = {name: webhook(described["x-webhooks"][name]) for name in WEBHOOKS}
    components = reached(described["components"], [paths, webhooks])
    return {
        "openapi": described["openapi"],
        "info": {key: described["info"][key] for key in ("title", "version", "license")},
        "servers": [{"url": "/"}, {"url": "/api/v3"}],
        "paths": paths,
        "x-webhooks": webhooks,
        "components": components,
    }


def main() -> None:
    """Write the subset, the licence and where they come from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="the unpacked @octokit/openapi")
    package: Path = parser.parse_args().package
    described = json.loads((package / "generated" / "api.github.com.json").read_text("utf-8"))
    about = json.loads((package / "package.json").read_text("utf-8"))
    subset = json.dumps(cut(described), indent=1, sort_keys=True) + "\n"
    (VENDORED / "openapi.json").write_text(subset, "utf-8")
    (VENDORED / "openapi.LICENSE").write_text((package / "LICENSE").read_text("utf-8"), "utf-8")
    source = {key: about[key] for key in ("name", "version", "license", "repository")}
    source["file"] = "generated/api.github.com.json"
    (VENDORED / "openapi.source.json").write_text(json.dumps(source, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
