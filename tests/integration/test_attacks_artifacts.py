"""What a check that belongs to a stranger may upload: each is said to be broken in one line, and nothing of it is shown."""

from __future__ import annotations

import io
import json
import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fake_github import events
from fake_github.model import CheckRun
from fake_github.server import FakeGitHub
from made_reports import peak
from publishing import (
    BASE,
    BRANCH,
    FORK,
    WORKFLOW,
    Scene,
    archive_of,
    claims,
    files_of,
    report_files,
    set_up,
)

from bot.publish import Published

RESULTS = "results.json"
SECRET = "not-for-the-report"
SHOWN = "value fault"
"""What the comment says of the report's finding."""


@pytest.fixture
def scene(fake_github: FakeGitHub, tmp_path: Path) -> Scene:
    return set_up(fake_github, tmp_path, report=False)


def good(scene: Scene) -> dict[str, bytes]:
    return dict(report_files(claims(scene.pull, scene.run)))


def with_results(scene: Scene, change: Callable[[bytes], bytes]) -> bytes:
    files = good(scene)
    return archive_of(files | {RESULTS: change(files[RESULTS])})


def edited(scene: Scene, change: Callable[[dict[str, Any]], Any]) -> bytes:
    def edit(raw: bytes) -> bytes:
        document = json.loads(raw)
        change(document)
        return json.dumps(document).encode()

    return with_results(scene, edit)


def zipped(files: Mapping[str, bytes], name: str, raw: bytes, mode: int = 0) -> bytes:
    """The report with one more entry of any name and mode."""
    data = io.BytesIO(archive_of(files))
    with zipfile.ZipFile(data, "a", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, raw)
    return data.getvalue()


def bomb(scene: Scene) -> bytes:
    """300 MB of zeros in the place of a program."""
    files = good(scene)
    name = next(name for name in files if name.endswith("program.opdiff"))
    return archive_of(files | {name: bytes(300 << 20)})


def bomb_of_many(scene: Scene) -> bytes:
    """Two hundred programs of a megabyte of zeros each."""
    files = good(scene)
    more = {f"findings/x{n}/program.opdiff": bytes(1 << 20) for n in range(200)}
    return archive_of(files | more)


def bomb_that_lies(scene: Scene) -> bytes:
    """The same, said to have a hundred bytes."""
    raw = bytearray(archive_of(good(scene) | {RESULTS: bytes(300 << 20)}))
    for signature, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        for name in (RESULTS.encode(),):
            offset = raw.find(name, raw.find(signature)) - (30 if signature[2] == 3 else 46)
            raw[offset + at : offset + at + 4] = (100).to_bytes(4, "little")
    return bytes(raw)


def climbing(scene: Scene) -> bytes:
    return zipped(good(scene), "../../escaped.txt", b"x")


def absolute(scene: Scene) -> bytes:
    return zipped(good(scene), f"{scene.folder}/escaped.txt", b"x")


def backslashes(scene: Scene) -> bytes:
    return zipped(good(scene), "..\\..\\escaped.txt", b"x")


def a_link(scene: Scene) -> bytes:
    secret = scene.folder / "secret.json"
    secret.write_text(SECRET)
    files = good(scene)
    del files[RESULTS]
    return zipped(files, RESULTS, str(secret).encode(), stat.S_IFLNK | 0o777)


def another_schema(scene: Scene) -> bytes:
    return edited(scene, lambda it: it.update(schema_version=1))


def a_schema_to_come(scene: Scene) -> bytes:
    return edited(scene, lambda it: it.update(schema_version=99))


def a_field_too_many(scene: Scene) -> bytes:
    return edited(scene, lambda it: it.update(html="<script>"))


def a_hundred_megabytes(scene: Scene) -> bytes:
    """Blanks that hardly compress: no bomb, but larger than any report."""
    blanks = Random(1).randbytes(100 << 20).translate(b" \n\t\r" * 64)
    return with_results(scene, lambda raw: raw.rstrip()[:-1] + blanks + b"}")


def sixty_megabytes_of_lists(scene: Scene) -> bytes:
    """A thousand million bytes when parsed."""
    return with_results(scene, lambda raw: b'{"x": [' + b"[]," * (20 << 20) + b"[]]}")


def not_a_number(scene: Scene) -> bytes:
    return with_results(scene, lambda raw: raw.replace(b'"seed": 7', b'"seed": NaN'))


def not_a_measure(scene: Scene) -> bytes:
    def change(document: dict[str, Any]) -> None:
        (row,) = document["findings"]
        row["mismatches"][0]["difference"]["largest_absolute"] = float("nan")

    return edited(scene, change)


def infinite(scene: Scene) -> bytes:
    return with_results(scene, lambda raw: raw.replace(b'"seed": 7', b'"seed": -Infinity'))


def twice(scene: Scene) -> bytes:
    return with_results(scene, lambda raw: b'{"result": "clean", ' + raw.lstrip()[1:])


def a_name_of_ten_megabytes(scene: Scene) -> bytes:
    def change(document: dict[str, Any]) -> None:
        document["findings"][0]["op"] = "x" * 10_000_000

    return edited(scene, change)


def a_note_of_ten_megabytes(scene: Scene) -> bytes:
    return edited(scene, lambda it: it.update(notes=["@everyone-team " * 700_000]))


def a_false_verdict(scene: Scene) -> bytes:
    return edited(scene, lambda it: it["findings"][0].update(verdict="@everyone-team"))


def another_pull_request(scene: Scene) -> bytes:
    return scene.report(number=scene.pull.number + 1)


def no_pull_request(scene: Scene) -> bytes:
    return scene.report(number=None)


def another_head(scene: Scene) -> bytes:
    return scene.report(head="f" * 40)


def another_base(scene: Scene) -> bytes:
    return scene.report(base=scene.pull.head_sha)


ARCHIVES = {
    bomb: "more than the 134217728 bytes that are read",
    bomb_of_many: "times larger than the artifact",
    bomb_that_lies: "not a whole zip file",
    climbing: "whose name no report has",
    absolute: "whose name no report has",
    backslashes: "whose name no report has",
    a_link: "neither a file nor a folder",
    another_schema: "has schema version '1'",
    a_schema_to_come: "has schema version '99'",
    a_field_too_many: "Extra inputs are not permitted",
    a_hundred_megabytes: "more than the 67108864 bytes that are read",
    sixty_megabytes_of_lists: "more than the 1000000 values that are read",
    not_a_number: "does not have the number NaN",
    not_a_measure: "does not have the number NaN",
    infinite: "does not have the number -Infinity",
    twice: "has a key twice",
    a_name_of_ten_megabytes: "at most 500 characters",
    a_note_of_ten_megabytes: "at most 4000 characters",
    a_false_verdict: "findings.0.verdict",
    another_pull_request: "claims to be about #2 at",
    no_pull_request: "does not say which commit and pull request",
    another_head: "claims to be about #1 at ffffff",
    another_base: "no commit of the base branch",
}
"""Each attack, and why it is refused."""


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda it: it.__name__)
def test_a_hostile_artifact_is_broken_and_not_shown(scene: Scene, archive: Any) -> None:
    raw = archive(scene)
    assert zlib.crc32(raw) != zlib.crc32(archive_of(good(scene)))  # the attack changed something
    scene.state.add_artifact(scene.run, "opdiff", raw)
    del raw
    done: list[Published] = []
    assert peak(lambda: done.append(scene.publish())) < 300 << 20
    (published,) = done
    assert published.results is None
    assert ARCHIVES[archive] in published.broken
    assert "\n" not in published.broken
    assert len(published.broken) < 1_000
    assert "result=incomplete" in published.output_lines()
    assert "could not report" in scene.comment_body.splitlines()[0]
    assert scene.check_run.conclusion == "failure"
    assert not scene.check_run.annotations
    shown = scene.comment_body + str(scene.check_run.model_dump())
    for secret in (SHOWN, SECRET, "@everyone", "<script>"):
        assert secret not in shown
    assert not files_of(scene.folder / "job-1")
    assert not list(scene.folder.rglob("escaped.txt"))


def test_the_report_without_an_attack_is_shown(scene: Scene) -> None:
    scene.state.add_artifact(scene.run, "opdiff", archive_of(good(scene)))
    assert scene.publish().results is not None
    assert SHOWN in scene.comment_body
    assert scene.check_run.annotations


def test_an_artifact_of_another_run_is_not_read(scene: Scene) -> None:
    """Only what this run itself uploaded, under the name that is asked for."""
    state = scene.state
    state.push(FORK, "other", {"op.py": "x = 3\n"})
    other = state.add_run(BASE, path=WORKFLOW, event="pull_request", head=(FORK, "other"))
    state.add_artifact(other, "opdiff", scene.report())
    state.add_artifact(scene.run, "opdiff-report", scene.report())
    assert "left no artifact" in scene.publish().broken


def test_a_changed_check_workflow_can_say_that_all_is_well_and_is_said_to_be_untrusted(
    scene: Scene,
) -> None:
    """The fork's own copy of the workflow says so under the right path: nobody can tell, so everybody is told."""
    state = scene.state
    forged = CheckRun(
        id=state.new_id(),
        repository=BASE,
        name="OpDiff",
        head_sha=scene.pull.head_sha,
        app="github-actions",
        started_at=scene.time.utc(),
        external_id="a job of that name",
        status="completed",
        conclusion="success",
    )
    state.check_runs.append(forged)
    state.add_artifact(scene.run, "opdiff", scene.report(findings=0))
    published = scene.publish()
    assert published.results is not None
    assert "untrusted run" in scene.comment_body
    own = state.check_runs[-1]
    assert own is not forged
    assert own.external_id == f"opdiff:{scene.pull.number}:{scene.run.id}:1"
    assert "untrusted run" in (own.summary or "")
    assert (forged.external_id, forged.title) == ("a job of that name", None)


def test_a_run_of_another_workflow_says_nothing(scene: Scene) -> None:
    """A workflow that the pull request adds, whatever it calls itself and its artifact."""
    own = ".github/workflows/opdiff2.yml"
    run = scene.state.add_run(BASE, path=own, event="pull_request", head=(FORK, BRANCH))
    scene.state.add_artifact(run, "opdiff", scene.report(run, findings=0))
    assert "not of the check workflow" in scene.publish(run).note
    assert not scene.github.writes()


def test_the_runs_word_for_its_pull_request_is_not_taken(scene: Scene) -> None:
    """``workflow_run.pull_requests`` of the event may name any."""
    state = scene.state
    state.push(FORK, "other", {"op.py": "x = 3\n"})
    other = state.add_pull(BASE, head=(FORK, "other"))
    state.add_artifact(scene.run, "opdiff", scene.report(number=other.number))
    event = events.workflow_run_completed(state, scene.run)
    event["workflow_run"]["pull_requests"] = [{"number": other.number}]
    published = scene.publish()
    assert "does not belong" in published.broken
    assert {it.number for it in state.comments} == {scene.pull.number}
