"""A report read back and written anew: what is true survives, what was rendered does not."""

from __future__ import annotations

from pathlib import Path

import made_findings as made
import pytest
from made_reports import BUNDLES, FOLDER, bundle, changed, files_of, named, report_of

from bot.programs.program import Call, Origin, Program, encode
from bot.report.read_back import is_read, read_run
from bot.report.repro_script import repro_script
from bot.report.results import read_results
from bot.report.rows import finding_row
from bot.report.write import write_report


@pytest.mark.parametrize("name", BUNDLES)
def test_a_script_is_written_anew_from_the_folder_alone(tmp_path: Path, name: str) -> None:
    original = repro_script(BUNDLES[name])
    (read,) = read_run(report_of(tmp_path, BUNDLES[name])).bundles()
    assert repro_script(read) == original
    assert finding_row(read.finding) == finding_row(BUNDLES[name].finding)


@pytest.mark.parametrize("name", BUNDLES)
def test_a_report_written_anew_says_the_same(tmp_path: Path, name: str) -> None:
    first = report_of(tmp_path / "first", BUNDLES[name])
    run = read_run(first)
    write_report(tmp_path / "second", run.results, run.bundles())
    second = files_of(tmp_path / "second")
    same = {name for name in first if name.endswith(("repro.py", ".safetensors", "program.opdiff"))}
    assert {name: second[name] for name in same} == {name: first[name] for name in same}
    assert set(second) == set(first)
    old, new = (read_results(tmp_path / part / "results.json") for part in ("first", "second"))
    assert new.findings == old.findings
    assert new.notes == old.notes
    again = read_run(second)
    write_report(tmp_path / "third", again.results, again.bundles())
    assert files_of(tmp_path / "third") == second


def test_every_script_says_something_else() -> None:
    """The table above tests ways that differ; to lack an op and to refuse it is one test."""
    texts = {repro_script(entry) for entry in BUNDLES.values()}
    assert len(texts) == len(BUNDLES) - 1


def test_nothing_that_the_run_rendered_is_carried_over(tmp_path: Path) -> None:
    files = report_of(tmp_path / "first")
    evil = b"EVIL import os; os.system('x') </details><script>"
    names = (
        "repro.py",
        "program.json",
        "inputs.safetensors",
        "extra.sh",
        "extra.safetensors",
        ".x",
    )
    hostile = dict(files) | {f"{FOLDER}/{name}": evil for name in names}
    hostile |= {"report.md": evil, "evil.html": evil, "findings/none-00000000/repro.py": evil}
    run = read_run(hostile)
    write_report(tmp_path / "second", run.results, run.bundles())
    second = files_of(tmp_path / "second")
    assert not any(b"EVIL" in raw for raw in second.values())
    clean = read_run(files)
    write_report(tmp_path / "third", clean.results, clean.bundles())
    assert second == files_of(tmp_path / "third")


def test_only_what_is_read_is_asked_for(tmp_path: Path) -> None:
    files = report_of(tmp_path)
    asked: set[str] = set()

    class Watched(dict[str, bytes]):
        def __getitem__(self, name: str) -> bytes:
            asked.add(name)
            return super().__getitem__(name)

    list(read_run(Watched(files)).bundles())
    assert all(map(is_read, asked))
    assert asked == {name for name in files if is_read(name)} - {f"{FOLDER}/inputs.safetensors"}
    rendered = ("report.md", "x/results.json", f"{FOLDER}/repro.py", "findings/../a/program.opdiff")
    assert not any(map(is_read, rendered))


def test_commands_of_the_run_and_paths_of_its_machine_are_dropped(tmp_path: Path) -> None:
    targets = tuple(
        target.model_copy(
            update={"python": "/home/eve/py", "import_paths": ("/home/eve/i",), "library_paths": ("/home/eve/l",)}
        )
        for target in made.TARGETS
    )  # fmt: skip
    command = made.RUN.model_copy(update={"command": ("opdiff", "run", "--target", "evil==1")})
    write_report(tmp_path / "first", made.results(targets=targets, run=command), [bundle()])
    report = (tmp_path / "first" / "report.md").read_text()
    assert "/home/eve/py" in report
    assert "--target evil==1" in report
    run = read_run(files_of(tmp_path / "first"))
    assert [target.label for target in run.results.targets] == [made.WRONG, made.RIGHT]
    write_report(tmp_path / "second", run.results, run.bundles())
    for raw in files_of(tmp_path / "second").values():
        assert b"/home/eve" not in raw
        assert b"evil==1" not in raw


def test_why_a_finding_is_ignored_stands_in_the_results_alone(tmp_path: Path) -> None:
    files = report_of(tmp_path)
    files["results.json"] = changed(files["results.json"], findings__0__ignored="issue 12")
    (row,) = read_run(files).results.findings
    assert (row.ignored, row.folder) == ("issue 12", FOLDER)


def test_a_known_frameworks_own_module_is_public(tmp_path: Path) -> None:
    call = Call(fn="oneflow.nn.FusedBatchNorm2d", args=[3], result="r0")
    program = Program(op="mul", calls=[call], origin=Origin(source="opinfo"))
    run = read_run(named(report_of(tmp_path), encode(program, b"")))
    assert run.results.findings[0].folder == FOLDER
