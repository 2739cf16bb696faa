from __future__ import annotations

import made_publications as made
import pytest
from hypothesis import given
from test_comment_body import slow

from bot.github.outputs import OutputError, output_lines
from bot.report.results import FailOn, Results


def test_lines() -> None:
    results = made.report(
        made.row(), made.row("1" * 16, status="known"), made.row("2" * 16, ignored="meant")
    )
    assert output_lines(results, "/out/a report/") == [
        "result=findings",
        "findings=3",
        "new-findings=1",
        "report-path=/out/a report/report.md",
        "json=/out/a report/results.json",
    ]


@pytest.mark.parametrize(("fail_on", "new"), [("any", 2), ("candidate", 1), ("never", 0)])
def test_new_findings_are_those_that_fail_the_run(fail_on: FailOn, new: int) -> None:
    findings = (made.row(), made.row("1" * 16, verdict="flaky"), made.row("2" * 16, status="known"))
    assert output_lines(made.report(*findings, fail_on=fail_on), ".")[2] == f"new-findings={new}"


@pytest.mark.parametrize(("folder", "path"), [("/", "/report.md"), (".", "./report.md"), ("é", "é/report.md")])  # fmt: skip
def test_folders(folder: str, path: str) -> None:
    assert output_lines(made.report(), folder)[3] == f"report-path={path}"


@pytest.mark.parametrize(
    "folder", ["a\nresult=clean", "a\r", "\u2028", "a\x00", "a\u202eb", "\x85"]
)
def test_a_folder_that_ends_the_line_is_refused(folder: str) -> None:
    with pytest.raises(OutputError, match="no plain line") as error:
        output_lines(made.report(), folder)
    assert "\n" not in str(error.value)


@slow
@given(made.results)
def test_values_are_words_and_integers(results: Results) -> None:
    lines = output_lines(results, "out")
    assert lines[0] in ("result=clean", "result=incomplete", "result=findings")
    assert lines[1] == f"findings={len(results.findings)}"
    assert all(len(line.splitlines()) == 1 for line in lines)
    assert len(lines) == 5
