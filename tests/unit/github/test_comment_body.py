from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import made_findings
import made_publications as made
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from bot.github.comment_body import comment_body, next_state
from bot.github.marker import read_marker
from bot.github.publication import Publication
from bot.github.state import CommentState, Decision, Seen
from bot.programs.builder import ProgramBuilder
from bot.report.results import ChangesRow, MismatchRow, OpCoverage, ShardRow, TargetFacts
from bot.report.write import write_report

LIMIT = 65_536
# A whole report is too large a thing to shrink: the failing text is told by the assertion.
slow = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    report_multiple_bugs=False,
    deadline=None,
    max_examples=40,
)  # fmt: skip


def check(publication: Publication) -> str:
    body = comment_body(publication)
    assert len(body.encode()) <= LIMIT
    made.assert_harmless(body)
    assert read_marker(body) == next_state(publication)
    assert read_marker(body.replace("\n", "\r\n") + "\r\n") == next_state(publication)
    return body


def first_line(publication: Publication) -> str:
    return check(publication).split("\n", 1)[0]


def seen(fingerprint: str, op: str = "nn.functional.layer_norm", **more: Any) -> Seen:
    fields: dict[str, Any] = {"kind": "gradient", "verdict": "candidate", "status": "new"}
    return Seen(fingerprint=fingerprint, op=op, **(fields | more))


def state(*found: Seen, **more: Any) -> CommentState:
    return CommentState(head=made.BASE, run=70, attempt=1, seen=found, **more)


@slow
@given(made.publications())
def test_any_report_fits_and_is_harmless(publication: Publication) -> None:
    check(publication)


def test_the_first_line_is_what_to_act_on() -> None:
    line = first_line(made.publication(made.report(made.row())))
    assert line == (
        "**1 new gradient fault in `nn.functional.layer_norm`**: `gradient of input` is `-0.5` on `oneflow@pr:cpu`, "
        "but `0.25` on `oneflow==0.9.0:cpu`. The candidate is wrong (strong: two witnesses agree)."
    )


@pytest.mark.parametrize(
    ("findings", "start"),
    [
        (
            (made.row(kind="crash", confidence="proved"), made.row("1" * 16), made.row("2" * 16, op="add")),
            "**3 new faults in `nn.functional.layer_norm`, `add`**: 1 crash, 2 gradient faults (1 proved, 2 strong).",
        ),
        (
            (made.row(verdict="undecided", status="changed", blamed=(), confidence="weak"),),
            "**1 difference in `nn.functional.layer_norm`, none proven against the candidate**: `gradient of input` is ",
        ),
        ((made.row(status=None, kind="nan"),), "**1 NaN fault in `nn.functional.layer_norm`**: "),
        (
            (made.row(status="known"),),
            "**No new differences**: 1 of 1 changed op tested, 31 of 38 programs compared; 1 known on the baseline; "
            "with `fail-on: any` these fail the check.",
        ),
        (
            (made.row(status="fixed"),),
            "**No new differences**: 1 of 1 changed op tested, 31 of 38 programs compared; 1 fixed by this pull request; ",
        ),
        (
            (made.row(ignored="flaky on this host"),),
            "**No new differences**: 1 of 1 changed op tested, 31 of 38 programs compared; 1 ignored or accepted; ",
        ),
    ],
)  # fmt: skip
def test_first_lines(findings: tuple[Any, ...], start: str) -> None:
    assert first_line(made.publication(made.report(*findings))).startswith(start)


def test_a_shape_is_told_by_its_shape() -> None:
    mismatch = MismatchRow.model_validate(
        {
            "kind": "shape", "role": "output", "name": "r0", "label": "output r0",
            "observations": [
                {"target": "oneflow@pr:cpu", "dtype": "float32", "shape": [3]},
                {"target": "oneflow==0.9.0:cpu", "dtype": "float32", "shape": [1, 3]},
            ],
        }
    )  # fmt: skip
    line = first_line(made.publication(made.report(made.row(kind="shape", mismatches=(mismatch,)))))
    assert "`output r0` is `float32[3]` on `oneflow@pr:cpu`, but `float32[1, 3]` on" in line


def test_nothing_found_is_one_quiet_line_and_folded_coverage() -> None:
    body = check(made.publication(made.report()))
    visible = re.sub(r"<details>.*?</details>", "", body, flags=re.S)
    lines = [
        line for line in visible.split("\n") if line and not line.startswith(("<sub>", "<!--"))
    ]
    assert lines == [
        "**No differences found**: 1 of 1 changed op tested, 31 of 38 programs compared."
    ]


def test_a_push_that_fixes_everything_says_fixed() -> None:
    body = check(
        made.publication(made.report(), previous=state(seen("1" * 16), seen("2" * 16, "add")))
    )
    assert body.startswith("**Fixed: 2 findings of the last report are gone**: 1 of 1 changed op")
    assert "2 fixed (`nn.functional.layer_norm`, `add`)" in body
    left = read_marker(body)
    assert left is not None
    assert left.model_copy(update={"earlier": None}) == CommentState(
        head=made.HEAD, run=77, attempt=1
    )


def test_absence_in_an_incomplete_run_proves_nothing() -> None:
    before = state(seen("1" * 16))
    results = made.report(result="incomplete", shortfalls=("the budget of 5 s ended",))
    publication = made.publication(results, previous=before)
    body = check(publication)
    assert body.startswith(
        "**Incomplete: nothing found so far, and no clean bill**: the budget of 5 s ended; 1 of 1 changed op tested"
    )
    assert (
        "1 not seen again (`nn.functional.layer_norm`), which this run does not prove fixed" in body
    )
    assert " fixed (" not in body
    assert next_state(publication).seen == before.seen


def test_a_finding_that_another_run_of_the_same_commit_does_not_show_is_not_fixed() -> None:
    before = CommentState(head=made.HEAD, run=76, attempt=1, seen=(seen("1" * 16),))
    publication = made.publication(made.report(), previous=before)
    body = check(publication)
    assert body.startswith("**No differences found**")
    assert f"Since the last run of this commit (`{made.HEAD[:10]}`): 1 not seen again" in body
    assert next_state(publication).seen == before.seen


def test_findings_of_an_incomplete_run_say_that_it_is() -> None:
    results = made.report(made.row(), shortfalls=("the budget of 5 s ended", "x"))
    body = check(made.publication(results))
    assert "**The run is incomplete**: the budget of 5 s ended (and 1 more reason)." in body


def test_absence_proves_nothing_where_the_op_was_not_tested_or_a_shard_is_lost() -> None:
    before = state(seen("1" * 16))
    untested = made.report(coverage=(OpCoverage(op="nn.functional.layer_norm", tested=False),))
    lost = made.report(shards=(ShardRow(shard="1/2", state="lost"),))
    for results in (untested, lost):
        assert "Fixed" not in check(made.publication(results, previous=before))


def test_new_and_still_there_since_the_last_report() -> None:
    results = made.report(made.row("1" * 16), made.row("2" * 16, op="add"))
    body = check(made.publication(results, previous=state(seen("1" * 16), seen_left_out=7)))
    assert (
        f"Since the last report (`{made.BASE[:10]}`): 1 new (`add`); 1 still there; 7 that" in body
    )
    assert f"| new, still there | `{'1' * 16}` |" in body


def test_a_known_finding_that_goes_is_not_called_fixed() -> None:
    body = check(made.publication(made.report(), previous=state(seen("1" * 16, status="known"))))
    assert body.startswith("**No differences found**")


def test_what_was_accepted_since_is_not_called_fixed() -> None:
    results = made.report(made.row("1" * 16, ignored="accepted: meant so"))
    body = check(made.publication(results, previous=state(seen("1" * 16))))
    assert "1 no longer counted" in body
    assert "1 finding ignored or accepted" in body
    assert "accepted: meant so" in body
    assert "fixed" not in body


def test_a_broken_run_says_so_and_keeps_what_was_known() -> None:
    before = state(seen("1" * 16), decisions=(wrong(),))
    publication = made.publication(None, broken="the artifact is no zip file", previous=before)
    body = check(publication)
    assert body.startswith(
        "**OpDiff could not report on this push**: the artifact is no zip file. Nothing is known of it"
    )
    assert "had 1 finding; whether they are still there is not known" in body
    assert next_state(publication).seen == before.seen
    assert next_state(publication).decisions == before.decisions


def test_a_broken_run_without_a_reason() -> None:
    assert "could not report on this push**: the run left no report." in first_line(
        made.publication(None)
    )


def test_an_untrusted_run_says_so() -> None:
    said = "Reported by an untrusted run"
    assert said in check(made.publication(made.report(), untrusted_run=True))
    assert said not in check(made.publication(made.report()))


def wrong(comment: int = 1, reason: str = "the baseline is wrong here") -> Decision:
    return Decision(
        comment=comment,
        verb="wrong",
        author="octocat",
        head=made.HEAD,
        fingerprint="1" * 16,
        reason=reason,
        verdict="candidate",
    )


def test_wrong_verdicts_are_counted() -> None:
    previous = state(decisions=(wrong(1), wrong(2)))
    body = check(made.publication(made.report(), previous=previous))
    assert "<summary>2 verdicts were said to be wrong</summary>" in body
    assert "(candidate), says `octocat`: the baseline is wrong here" in body


def test_what_was_not_covered() -> None:
    results = made.report(
        result="incomplete",
        coverage=(
            OpCoverage(op="nn.functional.layer_norm", tested=True),
            OpCoverage(op="nn.Fold", tested=False, reason="no program calls it"),
        ),
        targets=(
            TargetFacts(label="torch==2.13.0:cuda", failed="no GPU"),
            TargetFacts(label="oneflow@pr:cpu", isolation="unisolated: no bwrap"),
        ),
        shards=(ShardRow(shard="2/4", device="cuda", state="lost", note="no report arrived"),),
        changes=ChangesRow.model_validate({"unmapped": [{"file": "cmake/x.cmake", "why": "no reader"}]}),
        shortfalls=("nn.Fold is not tested: no program calls it", "the budget of 5 s ended"),
        notes=("nn.Fold is not tested: no program calls it", "2 hunks did not apply"),
    )  # fmt: skip
    body = check(made.publication(results))
    brief = "1 shard lost, 1 target failed, 1 op not tested, 1 changed file without a proven op"
    assert f"<summary>Not covered: {brief}</summary>" in body
    assert body.count("`nn.Fold` is not tested: no program calls it") == 1
    for line in (
        "- shard `2/4` on `cuda` is lost: no report arrived",
        "- target `torch==2.13.0:cuda` failed: no GPU",
        "- `oneflow@pr:cpu` ran unisolated: no bwrap",
        "- the budget of 5 s ended",
        "- `cmake/x.cmake`: no op could be proven: no reader",
        "- 2 hunks did not apply",
    ):
        assert line in body.split("\n")


def test_details_hold_tensors_values_script_and_draft() -> None:
    finding = made.row(verdict="upstream", status="known", blamed=("torch==2.13.0:cpu",))
    fingerprint = finding.fingerprint
    body = check(
        made.publication(
            made.report(finding),
            scripts={fingerprint: "import numpy as np\nprint(`'```'`)\n"},
            drafts={fingerprint: made.DRAFT_URL},
        )
    )
    assert "| `gradient of input` | `float32[1, 2]` | 1 of 2 | 0.75 | 3 | 9 |" in body
    assert "| target | `gradient of input` at [0, 1] |" in body
    assert "| `oneflow@pr:cpu` | `-0.5` |" in body
    assert "````python\nimport numpy as np\nprint(`'```'`)\n````" in body
    assert f"[Draft of an issue upstream]({made.DRAFT_URL})" in body
    assert "<summary>Known: the baseline has this one too</summary>" in body


def test_a_script_that_was_cut_is_named_and_not_shown(tmp_path: Path) -> None:
    """A report hands on no more of a script than it would show: half of one must not pass for a whole one."""
    builder = ProgramBuilder("mul")
    noise = np.random.default_rng(0).random(2_000)
    builder.output(builder.call("mul", builder.tensor("x", noise), 2))
    right, wrong = (made_findings.tensor("output", "r0", noise * n, "float64") for n in (2, 3))
    bundle = made_findings.bundle(
        builder.blob(), made_findings.ok(wrong), made_findings.ok(right), "oneflow"
    )
    written = write_report(tmp_path, made_findings.results(), [bundle])
    (finding,) = written.results.findings
    whole = (tmp_path / finding.folder / "repro.py").read_text()
    body = check(made.publication(written.results, scripts=written.scripts))
    assert len(whole) > 20_000
    assert "import oneflow" not in body
    assert f"The repro script is in the report: `{finding.folder}/repro.py`." in body


def test_five_thousand_findings_fit_and_link_the_whole() -> None:
    findings = made.many(5_000)
    publication = made.publication(
        made.report(*findings),
        scripts={finding.fingerprint: "x = 1\n" * 500 for finding in findings},
        previous=state(*(seen(f"{index:016x}", f"op{index}") for index in range(300))),
    )
    body = check(publication)
    assert body.startswith(
        "**5000 new gradient faults in `op0`, `op1`, `op2` and 4997 more ops**: "
    )
    rows = body.count("| the candidate (strong) |")
    assert rows >= 100
    assert f"{5_000 - rows} more findings in the [report]({made.REPORT_URL})." in body
    details = body.count("<details><summary><b>")
    assert f"Details of {5_000 - details} more findings in the [report]({made.REPORT_URL})." in body
    kept = next_state(publication)
    assert len(kept.seen) + kept.seen_left_out == 5_000


def test_scripts_of_later_findings_go_first() -> None:
    findings = made.many(12)
    scripts = {finding.fingerprint: "x = 1  # filler\n" * 500 for finding in findings}
    body = check(made.publication(made.report(*findings), scripts=scripts))
    with_script = [
        index
        for index, part in enumerate(body.split("<details><summary><b>")[1:])
        if "<summary>Repro script" in part
    ]
    assert 0 < len(with_script) < 12
    assert with_script == list(range(len(with_script)))
    assert body.count("<details><summary><b>") == 12
    assert body.count("| the candidate (strong) |") == 12


def test_the_worst_texts_everywhere_leave_the_first_line_and_the_marker() -> None:
    worst = "".join(made.HOSTILE).encode("utf-8", "replace").decode()[:4_000] + "\u202e" * 0
    for filler in (
        worst,
        "\u202e" * 4_000,
        "\U000e0001" * 4_000,
        "`" * 4_000,
        '"' * 4_000,
        "漢" * 4_000,
    ):
        name, text = filler[:500], filler
        finding = made.row(op=name, blamed=(name,), known_to_suite=text, folder=text)
        findings = [
            finding.model_copy(update={"fingerprint": f"{i:016x}", "op": name[:-3] + f"{i:03}"})
            for i in range(40)
        ]
        results = made.report(
            *findings, shortfalls=(text,) * 50, notes=(text,) * 50,
            coverage=tuple(OpCoverage(op=name, tested=False, reason=text) for _ in range(50)),
        )  # fmt: skip
        before = state(
            *(seen(f"f{i:015x}", name[:117] + f"{i:03}") for i in range(200)),
            decisions=tuple(wrong(i, text[:300]) for i in range(1, 201)),
        )
        body = check(made.publication(results, previous=before, untrusted_run=True, broken=text))
        assert body.startswith("**40 new gradient faults in ")
        assert f"head `{made.HEAD[:10]}` · [run]({made.RUN_URL})" in body
        check(made.publication(None, previous=before, untrusted_run=True, broken=text * 1_000))


def test_ten_megabytes_of_text_are_harmless() -> None:
    huge = "@everyone-team </details>```\n" * 350_000
    finding = made.row().model_copy(update={"op": huge, "ignored": None})
    publication = made.publication(
        made.report().model_copy(update={"findings": (finding,), "notes": (huge,)}),
        broken=huge,
        scripts={finding.fingerprint: huge},
    )
    check(publication)


def test_equal_publications_give_equal_comments() -> None:
    publication = made.publication(made.report(*made.many(20)))
    assert comment_body(publication) == comment_body(publication)
