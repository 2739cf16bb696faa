from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import made_findings as made
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from bot.oracle.finding import Difference, Evidence, Mismatch, Observation
from bot.report import wording
from bot.report.markdown import MAX_DETAILS, MAX_TABLE_ROWS, render_report
from bot.report.results import (
    ChangedOpRow,
    ChangesRow,
    Counts,
    FindingRow,
    OpCoverage,
    Results,
    TargetCoverage,
    UnmappedRow,
)
from bot.report.rows import finding_row
from bot.report.terminal import print_summary

HOSTILE = "@torch/x | <b>bold</b> [l](https://evil) #1 \u202e ::error::x\n\n# Heading ``` \x1b[31m"


def row(**more: Any) -> FindingRow:
    return finding_row(made.finding(made.doubled(), **more), "findings/mul-0123abcd")


def first_line(results: Results) -> str:
    return render_report(results, {}).split("\n")[2]


SEEN = "`output r0` is `5.0` on `oneflow@pr:cpu`, but `4.0` on `torch==2.13.0:cpu`."


def test_top_line_names_the_candidates_new_findings_and_what_was_not_tested() -> None:
    results = made.results(
        findings=(row(), row(op="add"), row(status="known"), row(status="fixed")),
        changes=ChangesRow(framework="oneflow"),
        coverage=(
            OpCoverage(op="mul", tested=True),
            OpCoverage(op="add", tested=False, reason="C++ only"),
        ),
    )
    assert first_line(results) == (
        f"**2 new value faults in `mul`, `add`**: 2 strong. The surest: {SEEN}"
    )
    assert "\n\n1 of 2 changed ops tested.\n\n" in render_report(results, {})


@pytest.mark.parametrize(
    ("findings", "result", "line"),
    [
        ((), "clean", "**No differences found**: nothing was run."),
        ((), "incomplete", "**Incomplete: nothing found so far, and no clean bill**: it does not say why; nothing was run."),
        ((row(status="known"),), "clean", "**No new differences**: nothing was run; 1 known on the baseline."),
        (
            (row(verdict="upstream", status=None, blamed=(made.RIGHT,)),), "findings",
            "**1 difference in `mul`, none proven against the candidate**: `output r0` is `4.0` on `torch==2.13.0:cpu`, "
            "but `5.0` on `oneflow@pr:cpu`. `torch==2.13.0:cpu` is wrong (strong).",
        ),
        ((row(status="new"),), "findings", f"**1 new value fault in `mul`**: {SEEN} The candidate is wrong (strong)."),
    ],
)  # fmt: skip
def test_top_line(findings: tuple[FindingRow, ...], result: Any, line: str) -> None:
    assert first_line(made.results(findings=findings, result=result)) == line


def test_mismatch_table_says_all_that_is_known_of_a_tensor() -> None:
    report = render_report(made.results(findings=(row(),)), {"0123abcd": "print('repro')\n"})
    assert "| `output r0` | `float32[3]` | 1 of 3 | 1 | 0.25 | 2097152 | [1] |" in report
    assert f"| `output r0` | `{made.WRONG}` | `5.0` |" in report
    assert f"| `output r0` | `{made.RIGHT}` | `4.0` |" in report
    assert "- `float64`: its error is 3e+06 times the other's" in report
    assert "```python\nprint('repro')\n```" in report
    assert "opdiff replay findings/mul-0123abcd" in report
    assert "/py/a findings/mul-0123abcd/repro.py" in report


def test_dtypes_that_differ_are_both_shown() -> None:
    seen = (Observation("a", "float32", (3,), "1.0"), Observation("b", "float64", (1, 3), "1.0"))
    mismatch = Mismatch("d", "shape", "output", "r0", (1,), (("a",), ("b",)), seen)
    report = render_report(made.results(findings=(row(kind="shape", mismatches=(mismatch,)),)), {})
    assert "| `output r0[1]` | `float32[3]`, `float64[1, 3]` | – | – | – | – | – |" in report


def test_crash_shows_what_happened_on_each_target() -> None:
    seen = (Observation("a", happened="died of SIGFPE"), Observation("b", "int32", (2,), "3"))
    mismatch = Mismatch("d", "crash", "", "", (), (("a",), ("b",)), seen)
    report = render_report(made.results(findings=(row(kind="crash", mismatches=(mismatch,)),)), {})
    assert "crash: `died of SIGFPE`" in report
    assert "| crash | `a` | `died of SIGFPE` |" in report


def test_known_and_fixed_are_apart_from_new() -> None:
    findings = (row(status="known", op="old"), row(op="fresh"), row(status="fixed", op="good"))
    report = render_report(made.results(findings=findings), {})
    sections = re.split(r"^## ", report, flags=re.M)
    by_title = {section.split("\n")[0]: section for section in sections}
    assert "`fresh`" in by_title["Findings"]
    assert "`old`" not in by_title["Findings"]
    assert "`old`" in by_title["Known"]
    assert "`good`" in by_title["Fixed"]


def test_coverage_and_environment_are_stated() -> None:
    targets = (TargetCoverage(target="a", programs=9, compared=7, unsupported={"no complex": 2}),)
    results = made.results(
        result="incomplete",
        changes=ChangesRow(
            framework="oneflow",
            ops=(ChangedOpRow(op="mul", how="indirect", path=("binary.cpp: Mul", "mul")),),
            unmapped=(UnmappedRow(file="core/x.h", why="a header of everything"),),
        ),
        coverage=(
            OpCoverage(op="mul", tested=True, targets=targets),
            OpCoverage(op="add", tested=False, reason="changed in C++"),
        ),
        counts=Counts(
            cases=10,
            expressed=8,
            programs=9,
            compared=7,
            outputs=12,
            gradients=3,
            skipped={"no case": 4},
            dismissed={"float64": 5},
        ),
        notes=("unisolated: no user namespaces",),
    )
    report = render_report(results, {})
    assert "| `mul` | yes | indirect: `binary.cpp: Mul` → `mul` | 7 | `no complex` (2) |" in report
    assert "| `add` | **no**: `changed in C++` |" in report
    assert "8 of 10 cases became programs. 7 of 9 programs compared: 12 outputs" in report
    assert "- no case: 4" in report
    assert "- float64: 5" in report
    assert "- `core/x.h`: a header of everything" in report
    assert "- unisolated: no user namespaces" in report
    assert "`Some CPU`" in report
    assert f"| `{made.RIGHT}` | peer | `torch 2.13.0` |" in report


def test_thousands_of_findings_stay_readable() -> None:
    findings = tuple(row(fingerprint=f"{i:08x}", op=f"op{i}") for i in range(3_000))
    scripts = {f.fingerprint: "x = 1\n" * 1_000 for f in findings}
    report = render_report(made.results(findings=findings, notes=("n",) * 5_000), scripts)
    assert len(report) < 1 << 20
    assert f"{3_000 - MAX_TABLE_ROWS} more findings are in `results.json`." in report
    assert f"Details of {3_000 - MAX_DETAILS} more findings" in report
    assert "- 4800 more are in `results.json`" in report


def test_a_long_script_is_linked_not_cut() -> None:
    report = render_report(made.results(findings=(row(),)), {"0123abcd": "x" * 20_000})
    assert "xxxx" not in report
    assert "`findings/mul-0123abcd/repro.py` (too long to show here)" in report


def hostile_results() -> Results:
    seen = (Observation(HOSTILE, "float32", (1,), HOSTILE), Observation("b", happened=HOSTILE))
    difference = Difference(1, 1, 1.0, 1.0, 1, (0,))
    mismatch = Mismatch("d", "value", "output", HOSTILE, (), ((HOSTILE,), ("b",)), seen, difference)
    finding = row(
        op=HOSTILE,
        fingerprint=HOSTILE,
        blamed=(HOSTILE,),
        verdict="upstream",
        mismatches=(mismatch,),
        evidence=(Evidence(HOSTILE, HOSTILE),),
        known_to_suite=HOSTILE,
    )
    return made.results(
        findings=(finding, finding.model_copy(update={"status": "known"})),
        targets=tuple(
            t.model_copy(
                update={"label": HOSTILE, "version": HOSTILE, "failed": HOSTILE, "python": HOSTILE}
            )
            for t in made.TARGETS
        ),
        changes=ChangesRow(
            ops=(ChangedOpRow(op=HOSTILE, how="direct", path=(HOSTILE,)),),
            unmapped=(UnmappedRow(file=HOSTILE, why=HOSTILE),),
        ),
        coverage=(
            OpCoverage(op=HOSTILE, tested=False, reason=HOSTILE),
            OpCoverage(
                op="a", tested=True, targets=(TargetCoverage(target="b", unsupported={HOSTILE: 1}),)
            ),
        ),
        counts=Counts(skipped={HOSTILE: 1}, dismissed={HOSTILE: 1}),
        notes=(HOSTILE,),
        run=made.RUN.model_copy(update={"cpu": HOSTILE, "command": (HOSTILE,), "started": HOSTILE}),
    )


def test_hostile_text_everywhere_changes_nothing_but_text() -> None:
    report = render_report(hostile_results(), {HOSTILE: f"x = {HOSTILE!r}\n"})
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(report)
    html = [t.content.strip() for t in tokens if t.type == "html_block"]
    assert all(re.fullmatch(r"</?details>(<summary>[\w: ]+</summary>)?", h) for h in html)
    inline = [child for token in tokens for child in token.children or []]
    assert {child.type for child in inline} <= {
        "text", "text_special", "code_inline", "softbreak", "strong_open", "strong_close",
    }  # fmt: skip
    headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    assert not any(re.fullmatch("Heading.*", heading) for heading in headings)
    tables = "".join(line + "\n" for line in report.split("\n") if line.startswith("|"))
    for line in tables.splitlines():
        assert len(re.findall(r"(?<!\\)\|", line)) in (5, 6, 8, 4), line
    assert "\u202e" not in report
    assert "\x1b" not in report
    assert not re.search(r"^\s*::", report, re.M)
    outside_code = "".join(child.content for child in inline if child.type.startswith("text"))
    assert not re.search(r"@\w|://|#\d", outside_code)


def printed(results: Results, terminal: bool) -> str:
    stream = io.StringIO()
    print_summary(
        Console(file=stream, force_terminal=terminal, width=120), results, Path("out/report.md")
    )
    return stream.getvalue()


def test_summary_is_plain_lines_without_a_terminal() -> None:
    results = made.results(
        findings=(row(),), counts=Counts(programs=9, compared=7, outputs=12), notes=("unisolated",)
    )
    assert printed(results, terminal=False).splitlines() == [
        "mul  value of output r0  candidate  strong  new  1",
        "compared 7 of 9 programs: 12 outputs, 0 gradients, 0 side effects, 0 exceptions",
        "note: unisolated",
        "findings: 1 finding; report: out/report.md",
    ]


def test_summary_is_a_table_in_a_terminal() -> None:
    text = printed(made.results(findings=(row(),)), terminal=True)
    assert "confidence" in text
    assert "\x1b[" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_summary_carries_no_control_characters_of_others(terminal: bool) -> None:
    text = printed(hostile_results(), terminal)
    assert "\u202e" not in text
    shown = re.sub(r"\x1b\[\d*m", "", text)  # rich's own colours
    assert "\x1b" not in shown
    assert not re.search(r"^\s*::", shown, re.M)


def test_long_summary_says_what_it_left_out() -> None:
    text = printed(made.results(findings=(row(),) * 100), terminal=False)
    assert "70 more findings are in the report" in text
    assert len(text.splitlines()) < 40


def test_notes_reasons_and_ops_beyond_the_first_are_counted() -> None:
    results = made.results(
        counts=Counts(skipped={f"reason {n}": n for n in range(7)}),
        coverage=tuple(
            OpCoverage(op=f"op{n}", tested=False, reason="no program") for n in range(13)
        ),
        notes=tuple(f"note {n}" for n in range(14)),
    )
    lines = printed(results, terminal=False).splitlines()
    assert "2 more reasons are in the report" in lines
    assert "3 more ops not tested are in the report" in lines
    assert "4 more notes are in the report" in lines


def test_gradient_is_named_once() -> None:
    mismatch = made.mismatch("gradient", "gradient", "x")
    results = made.results(findings=(row(kind="gradient", mismatches=(mismatch,)),))
    assert "| `mul` | `gradient of x` | the candidate (strong) |" in render_report(results, {})
    assert printed(results, terminal=False).startswith("mul  gradient of x  candidate")


def test_commands_are_quoted_for_a_shell() -> None:
    run = made.RUN.model_copy(
        update={"command": ("opdiff", "run", "--target", 'python="/a b/python":cpu')}
    )
    hostile = row().model_copy(update={"folder": "findings/x; touch y"})
    text = render_report(made.results(findings=(hostile,)).model_copy(update={"run": run}), {})
    assert "opdiff run --target 'python=\"/a b/python\":cpu'" in text
    assert "opdiff replay 'findings/x; touch y'" in text


def test_what_is_ignored_is_listed_with_its_reason_and_does_not_count() -> None:
    ignored = row().model_copy(update={"ignored": "accepted: meant | so"})
    results = made.results(findings=(ignored,), result="clean")
    report = render_report(results, {})
    assert "**No new differences**: nothing was run; 1 ignored or accepted." in report
    assert "## Ignored" in report
    assert "- `0123abcd`: accepted: meant \\| so" in report
    assert "## Findings" not in report


def test_an_absurd_count_is_bounded() -> None:
    assert wording.number(10**18 - 1) == "999999999999999999"
    assert wording.number(2**4_000) == "2^4000 or more"
    report = render_report(
        made.results(findings=(row().model_copy(update={"count": 2**4_000}),)), {}
    )
    assert "seen in 2^4000 or more programs" in report
