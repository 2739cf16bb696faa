"""Operations on check runs and their annotations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .exchange import Call, Refusal, Reply, Serve, invalid
from .model import Annotation, CheckRun
from .state import one

# https://docs.github.com/rest/checks/runs: characters, annotations of one request, bytes ("64 KB").
LONGEST_OUTPUT = 65_535
MOST_ANNOTATIONS = 50
LONGEST_ANNOTATION = 64 * 1024
LONGEST_ANNOTATION_TITLE = 255


def check_limits(body: dict[str, Any]) -> None:
    """Refuse what is over GitHub's limits, as GitHub does: 422."""
    output = body.get("output") or {}
    if not isinstance(output, dict):
        return
    for name in ("summary", "text"):
        text = output.get(name) or ""
        if len(text) > LONGEST_OUTPUT:
            too_long = f"Only {LONGEST_OUTPUT} characters are allowed; {len(text)} were supplied."
            raise Refusal(422, f"Invalid request.\n\n{too_long}", [])
    annotations = output.get("annotations") or []
    if len(annotations) > MOST_ANNOTATIONS:
        too_many = (
            f"No more than {MOST_ANNOTATIONS} items are allowed; {len(annotations)} were supplied."
        )
        raise Refusal(422, f"Invalid request.\n\n{too_many}", [])
    for annotation in annotations:
        _check_annotation(annotation)


def _check_annotation(annotation: dict[str, Any]) -> None:
    for name in ("message", "raw_details"):
        if len((annotation.get(name) or "").encode()) > LONGEST_ANNOTATION:
            invalid("CheckAnnotation", name, f"{name} exceeds a maximum bytesize of 65536")
    if len(annotation.get("title") or "") > LONGEST_ANNOTATION_TITLE:
        invalid("CheckAnnotation", "title", "title is too long (maximum is 255 characters)")
    start, end = annotation.get("start_line", 0), annotation.get("end_line", 0)
    if start < 1 or end < start:
        invalid("CheckAnnotation", "end_line", "lines must be positive and in order")
    if start != end and ("start_column" in annotation or "end_column" in annotation):
        invalid("CheckAnnotation", "start_column", "columns need start_line and end_line the same")


def _apply(call: Call, run: CheckRun) -> None:
    for name in ("name", "external_id", "details_url", "status", "actions"):
        if name in call.body:
            setattr(run, name, call.body[name])
    for name in ("started_at", "completed_at"):
        if name in call.body:
            setattr(run, name, datetime.fromisoformat(call.body[name]))
    if call.body.get("status") == "completed" and not call.body.get("conclusion"):
        invalid("CheckRun", "conclusion", "conclusion is required when status is completed")
    if "conclusion" in call.body:
        run.status, run.conclusion = "completed", call.body["conclusion"]
        run.completed_at = run.completed_at or call.state.now()
    elif run.status != "completed":
        run.conclusion = run.completed_at = None
    output = call.body.get("output", {})
    for name in ("title", "summary", "text"):
        if name in output:
            setattr(run, name, output[name])
    run.annotations += [Annotation.model_validate(it) for it in output.get("annotations", [])]


def create(call: Call) -> Reply:
    """Only an app makes check runs, and only for a commit that the repository can reach."""
    if not call.caller.app:
        raise Refusal(403, "You must authenticate via a GitHub App.")
    sha = call.body["head_sha"]
    if sha not in call.state.commits:
        raise Refusal(422, f"No commit found for SHA: {sha}", [])
    run = CheckRun(
        id=call.state.new_id(),
        repository=call.full_name,
        name=call.body["name"],
        head_sha=sha,
        app=call.caller.app,
        started_at=call.state.now(),
    )
    _apply(call, run)
    call.state.check_runs.append(run)
    return Reply(201, call.render.check_run(run))


def _run(call: Call) -> CheckRun:
    wanted = (call.full_name, call.number("check_run_id"))
    return one(call.state.check_runs, lambda it: (it.repository, it.id) == wanted, "check run")


def update(call: Call) -> Reply:
    """Another app's check run cannot be changed."""
    run = _run(call)
    if call.caller.app != run.app:
        raise Refusal(403, "Invalid app_id `" + str(run.app) + "` - check run can only be modified")
    _apply(call, run)
    return Reply(body=call.render.check_run(run))


def get(call: Call) -> Reply:
    return Reply(body=call.render.check_run(_run(call)))


def list_annotations(call: Call) -> Reply:
    run = _run(call)
    return call.page(run.annotations, lambda it: call.render.annotation(run, it))


def list_for_ref(call: Call) -> Reply:
    """Newest first; ``filter=latest``, the default, shows the newest of each name and app."""
    sha = call.state.commit_at(call.repository, call.values["ref"]).sha
    app_id = call.query.get("app_id")
    found: list[CheckRun] = []
    for run in sorted(call.state.check_runs, key=lambda it: it.id, reverse=True):
        older = any((it.name, it.app) == (run.name, run.app) for it in found)
        if (
            (run.repository, run.head_sha) == (call.full_name, sha)
            and run.name == call.query.get("check_name", run.name)
            and run.status == call.query.get("status", run.status)
            and app_id in (None, str(call.state.app(run.app).id))
            and not (older and call.query.get("filter", "latest") == "latest")
        ):
            found.append(run)
    return call.page(found, call.render.check_run, "check_runs")


OPERATIONS: dict[str, Serve] = {
    "checks/create": create,
    "checks/update": update,
    "checks/get": get,
    "checks/list-annotations": list_annotations,
    "checks/list-for-ref": list_for_ref,
}
