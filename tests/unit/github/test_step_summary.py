from __future__ import annotations

import made_publications as made
from hypothesis import given
from test_comment_body import slow

from bot.github.step_summary import step_summary
from bot.report.results import OpCoverage, Results


@slow
@given(made.results)
def test_any_report_fits_and_is_harmless(results: Results) -> None:
    summary = step_summary(results, {f.fingerprint: "\n::x\n```" for f in results.findings})
    assert len(summary.encode()) < 1 << 20
    made.assert_harmless(summary)


def test_more_than_a_mebibyte_of_material_is_left_out_in_whole_pieces() -> None:
    findings = made.many(6_000, known_to_suite="漢" * 200)
    scripts = {finding.fingerprint: "x = '漢'  # filler\n" * 300 for finding in findings[:1_000]}
    assert sum(len(script.encode()) for script in scripts.values()) > 5 << 20
    coverage = tuple(OpCoverage(op=f"op{i}", tested=False, reason="é" * 300) for i in range(6_000))
    summary = step_summary(made.report(*findings, coverage=coverage), scripts, made.REPORT_URL)
    assert 900_000 < len(summary.encode()) < 1 << 20
    made.assert_harmless(summary)
    shown = summary.count("| the candidate (strong) |")
    assert f"{6_000 - shown} more findings in the [report]({made.REPORT_URL})." in summary
    assert "more lines about coverage in the" in summary


def test_a_small_summary_is_whole() -> None:
    finding = made.row()
    summary = step_summary(made.report(finding), {finding.fingerprint: "print(1)"})
    assert summary.startswith("## OpDiff\n\n**1 new gradient fault in `nn.functional.layer_norm`**")
    assert "```python\nprint(1)\n```" in summary
    assert summary.endswith("</details>\n")
