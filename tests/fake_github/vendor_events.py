"""Takes the webhook examples that events start from out of Octokit's collection, unchanged.

    python -m tests.fake_github.vendor_events PACKAGE LICENSE

PACKAGE is the unpacked npm package ``@octokit/webhooks-examples``, which holds no licence text;
LICENSE is the file of its repository. Written are ``vendored/events.json`` and the two files beside it
that say where it comes from and under which licence.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

VENDORED = Path(__file__).parent / "vendored"

# Name of the webhook in GitHub's description -> event, action, which of its examples.
EXAMPLES: dict[str, tuple[str, str | None, int]] = {
    "issue-comment-created": ("issue_comment", "created", 1),
    "issue-comment-edited": ("issue_comment", "edited", 0),
    "merge-group-checks-requested": ("merge_group", "checks_requested", 0),
    "pull-request-labeled": ("pull_request", "labeled", 0),
    "pull-request-opened": ("pull_request", "opened", 1),
    "pull-request-synchronize": ("pull_request", "synchronize", 0),
    "push": ("push", None, 1),
    "workflow-dispatch": ("workflow_dispatch", None, 0),
    "workflow-run-completed": ("workflow_run", "completed", 1),
}


def chosen(collection: list[dict[str, Any]]) -> dict[str, Any]:
    """The examples named above."""
    by_event = {it["name"]: it["examples"] for it in collection}
    return {
        name: [it for it in by_event[event] if it.get("action") == action][index]
        for name, (event, action, index) in EXAMPLES.items()
    }


def main() -> None:
    """Write the examples, the licence and where they come from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="the unpacked @octokit/webhooks-examples")
    parser.add_argument("license", type=Path, help="the licence of its repository")
    arguments = parser.parse_args()
    package: Path = arguments.package
    collection = json.loads((package / "api.github.com" / "index.json").read_text("utf-8"))
    about = json.loads((package / "package.json").read_text("utf-8"))
    text = json.dumps(chosen(collection), indent=1, sort_keys=True) + "\n"
    (VENDORED / "events.json").write_text(text, "utf-8")
    (VENDORED / "events.LICENSE").write_text(arguments.license.read_text("utf-8"), "utf-8")
    source = {key: about[key] for key in ("name", "version", "license", "repository")}
    source["file"] = "api.github.com/index.json"
    (VENDORED / "events.source.json").write_text(json.dumps(source, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
