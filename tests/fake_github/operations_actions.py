"""Operations on workflow runs and artifacts."""

from __future__ import annotations

from datetime import timedelta

from .exchange import Call, Refusal, Reply, Serve
from .model import Artifact, WorkflowRun
from .state import one

# https://docs.github.com/actions: a run can be run again for 30 days.
RERUN_DAYS = 30


def _run(call: Call) -> WorkflowRun:
    return call.state.run(call.full_name, call.number("run_id"))


def _show(call: Call, run: WorkflowRun, number: int | None = None) -> dict[str, object]:
    pulls = call.query.get("exclude_pull_requests", "false") != "true"
    return call.render.run(run, number=number, pulls=pulls)


def _runs(call: Call, workflow: str | None = None) -> list[WorkflowRun]:
    """The repository's runs that the query asks for, newest first."""

    def wanted(run: WorkflowRun) -> bool:
        query = call.query
        names = (str(run.workflow_id), run.path.rsplit("/", 1)[-1])
        return (
            run.repository == call.full_name
            and workflow in (None, *names)
            and run.actor == query.get("actor", run.actor)
            and run.event == query.get("event", run.event)
            and query.get("branch") in (None, run.head_branch)
            and query.get("status") in (None, run.status, run.conclusion)
            and run.head_sha == query.get("head_sha", run.head_sha)
            and query.get("check_suite_id") in (None, str(run.id + 1_000_000))
        )

    if "created" in call.query:
        raise Refusal(501, "The fake GitHub does not filter runs by `created`")
    return sorted(filter(wanted, call.state.runs), key=lambda it: it.id, reverse=True)


def list_runs(call: Call) -> Reply:
    return call.page(_runs(call), lambda it: _show(call, it), "workflow_runs")


def list_workflow_runs(call: Call) -> Reply:
    _workflow(call)
    found = _runs(call, call.values["workflow_id"])
    return call.page(found, lambda it: _show(call, it), "workflow_runs")


def _workflow(call: Call) -> WorkflowRun:
    wanted = call.values["workflow_id"]
    return one(
        call.state.runs,
        lambda it: (
            it.repository == call.full_name
            and wanted in (str(it.workflow_id), it.path.rsplit("/", 1)[-1])
        ),
        "workflow",
    )


def get_workflow(call: Call) -> Reply:
    return Reply(body=call.render.workflow(_workflow(call)))


def get_run(call: Call) -> Reply:
    return Reply(body=_show(call, _run(call)))


def get_attempt(call: Call) -> Reply:
    run, number = _run(call), call.number("attempt_number")
    if not 1 <= number <= run.run_attempt:
        raise Refusal(404, "Not Found")
    return Reply(body=_show(call, run, number))


def _rerun(call: Call, *, failed_jobs_only: bool) -> Reply:
    run = _run(call)
    if run.status != "completed":
        raise Refusal(403, "This workflow is already running")
    if call.state.now() - run.created_at > timedelta(days=RERUN_DAYS):
        raise Refusal(
            403, "Unable to retry this workflow run because it was created over a month ago"
        )
    if failed_jobs_only and run.conclusion == "success":
        raise Refusal(403, "This workflow run has no failed jobs")
    call.state.rerun(run, failed_jobs_only=failed_jobs_only)
    return Reply(201, {})


def rerun(call: Call) -> Reply:
    return _rerun(call, failed_jobs_only=False)


def rerun_failed_jobs(call: Call) -> Reply:
    return _rerun(call, failed_jobs_only=True)


def list_jobs(call: Call) -> Reply:
    run = _run(call)
    jobs = list(enumerate(run.jobs.items(), start=1))
    return call.page(jobs, lambda it: call.render.job(run, it[0], *it[1]), "jobs")


def list_artifacts(call: Call) -> Reply:
    run, name = _run(call), call.query.get("name")
    found = [it for it in call.state.artifacts if it.run_id == run.id and name in (None, it.name)]
    newest_first = call.query.get("direction", "desc") == "desc"
    found.sort(key=lambda it: it.id, reverse=newest_first)
    return call.page(found, call.render.artifact, "artifacts")


def _artifact(call: Call) -> Artifact:
    wanted = (call.full_name, call.number("artifact_id"))
    return one(call.state.artifacts, lambda it: (it.repository, it.id) == wanted, "artifact")


def get_artifact(call: Call) -> Reply:
    return Reply(body=call.render.artifact(_artifact(call)))


def download_artifact(call: Call) -> Reply:
    """A redirect to another host, whose address is the permission."""
    artifact = _artifact(call)
    if call.values["archive_format"] != "zip":
        raise Refusal(404, "Not Found")
    if artifact.expired:
        raise Refusal(410, "Artifact has expired")
    return Reply(302, headers={"Location": call.blob_url(artifact.id)})


OPERATIONS: dict[str, Serve] = {
    "actions/list-workflow-runs-for-repo": list_runs,
    "actions/get-workflow": get_workflow,
    "actions/list-workflow-runs": list_workflow_runs,
    "actions/get-workflow-run": get_run,
    "actions/get-workflow-run-attempt": get_attempt,
    "actions/re-run-workflow": rerun,
    "actions/re-run-workflow-failed-jobs": rerun_failed_jobs,
    "actions/list-jobs-for-workflow-run": list_jobs,
    "actions/list-workflow-run-artifacts": list_artifacts,
    "actions/get-artifact": get_artifact,
    "actions/download-artifact": download_artifact,
}
