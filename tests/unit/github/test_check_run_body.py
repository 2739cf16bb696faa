from __future__ import annotations

from typing import Any

import made_publications as made
import pytest
from hypothesis import given
from test_comment_body import slow

from bot.github.check_run_body import Annotation, CheckRunBody, check_run_body
from bot.github.publication import Publication
from bot.report.results import ChangedOpRow, ChangesRow, LinesRow, OpCoverage, Results, ShardRow


def check(publication: Publication) -> CheckRunBody:
    body = check_run_body(publication)
    for text in (body.summary, body.text):
        assert len(text.encode()) <= 65_535
        made.assert_harmless(text)
    assert 0 < len(body.title) <= 255
    assert made.shows_all(body.title)
    for note in body.annotations:
        assert made.shows_all(note.path)
        assert not note.path.startswith("/")
        assert ".." not in note.path.split("/")
        assert 1 <= note.start_line <= note.end_line
        assert len(note.title) <= 255
        assert len(note.message) <= 4_096
        for line in (note.title, *note.message.split("\n")):
            assert made.shows_all(line)
            assert not line.lstrip().startswith("::")
    return body


def changed(*lines: tuple[str, int, int], op: str = "nn.functional.layer_norm") -> ChangesRow:
    rows = [LinesRow(file=file, first=first, last=last) for file, first, last in lines]
    return ChangesRow(ops=(ChangedOpRow(op=op, how="direct", lines=tuple(rows)),))


@slow
@given(made.publications())
def test_any_report_fits_and_is_harmless(publication: Publication) -> None:
    check(publication)


@pytest.mark.parametrize(
    ("results", "conclusion"),
    [
        (None, "failure"),
        (made.report(), "success"),
        (made.report(made.row()), "failure"),
        (made.report(result="incomplete", shortfalls=("x",)), "failure"),
        (made.report(shortfalls=("x",)), "failure"),
        (made.report(shards=(ShardRow(shard="1/2", state="broken"),)), "failure"),
        (made.report(made.row(), result="clean", fail_on="never"), "neutral"),
        (made.report(made.row(), result="incomplete", fail_on="never"), "failure"),
        (made.report(made.row(status="known"), result="clean"), "success"),
        (made.report(made.row(status="fixed"), result="clean"), "success"),
        (made.report(made.row(ignored="accepted: meant"), result="clean"), "success"),
    ],
)
def test_conclusions(results: Results | None, conclusion: str) -> None:
    assert check(made.publication(results)).conclusion == conclusion


def test_titles() -> None:
    publication = made.publication(made.report(made.row()))
    assert check(publication).title == "1 new gradient fault in nn.functional.layer_norm"
    assert check(made.publication(None)).title == "No report: the run is broken"
    untrusted = made.publication(made.report(), untrusted_run=True)
    assert check(untrusted).title == "No differences found (untrusted run)"


def test_an_annotation_says_what_where_and_who() -> None:
    body = check(made.publication(made.report(made.row())))
    assert body.annotations == (
        Annotation(
            path="oneflow/norm.py",
            start_line=144,
            end_line=146,
            annotation_level="failure",
            title="gradient: nn.functional.layer_norm (the candidate)",
            message=(
                "gradient of input\noneflow@pr:cpu: -0.5\noneflow==0.9.0:cpu: 0.25\n"
                "Wrong: the candidate (strong): two witnesses agree\nFingerprint: 0123abcd0123abcd"
            ),
        ),
    )


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ({"verdict": "both"}, "failure"),
        ({"verdict": "upstream", "status": "changed"}, "warning"),
        ({"verdict": "undecided", "status": "changed"}, "warning"),
        ({"verdict": "flaky"}, "notice"),
        ({"verdict": "convention"}, "notice"),
    ],
)
def test_levels_follow_the_verdict(more: dict[str, Any], level: str) -> None:
    notes = check(made.publication(made.report(made.row(**more)))).annotations
    assert [note.annotation_level for note in notes] == [level]


@pytest.mark.parametrize("more", [{"status": "known"}, {"status": "fixed"}, {"ignored": "meant"}])
def test_what_asks_nothing_is_not_annotated(more: dict[str, Any]) -> None:
    assert check(made.publication(made.report(made.row(**more)))).annotations == ()


@pytest.mark.parametrize("number", [1, 50, 51, 500])
def test_all_annotations_in_a_stable_order(number: int) -> None:
    findings = [made.row(f"{index:016x}", op="nn.functional.layer_norm") for index in range(number)]
    notes = check(made.publication(made.report(*findings))).annotations
    assert len(notes) == number
    fingerprints = [note.message.rsplit(" ", 1)[1] for note in notes]
    assert fingerprints == [f"{index:016x}" for index in range(number)]
    assert notes == check(made.publication(made.report(*findings))).annotations


def test_annotations_are_bounded() -> None:
    lines = [("a.py", index + 1, index + 1) for index in range(100)]
    one = check(made.publication(made.report(made.row(), changes=changed(*lines))))
    assert [note.start_line for note in one.annotations] == [1, 2, 3, 4, 5]
    rows = [made.row(f"{index:016x}") for index in range(1_001)]
    assert len(check(made.publication(made.report(*rows))).annotations) == 1_000


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "../x.py", "a/../../x.py", "a//b.py", "./a.py", "a\\b.py", "", "a/", " a.py", "a.py\n", "a\u202eb.py",
        "a\x1b[0m.py", ".git/config", "a/.git/x", "x" * 401, "a\u200b.py",
    ],
)  # fmt: skip
def test_an_odd_path_is_not_annotated(path: str) -> None:
    results = made.report(made.row(), changes=changed((path, 1, 2), ("ok.py", 3, 4)))
    assert [note.path for note in check(made.publication(results)).annotations] == ["ok.py"]


@pytest.mark.parametrize("path", ["a b/c.py", "oneflow/ö.py", "a/[x]@2.py", "a.b/.c"])
def test_a_plain_path_is_annotated(path: str) -> None:
    results = made.report(made.row(), changes=changed((path, 1, 2)))
    assert [note.path for note in check(made.publication(results)).annotations] == [path]


def test_absurd_line_numbers_are_not_annotated() -> None:
    results = made.report(
        made.row(), changes=changed(("a.py", 1, 10**12), ("a.py", 10**30, 10**30))
    )
    assert check(made.publication(results)).annotations == ()


def test_five_thousand_findings_fit() -> None:
    findings = made.many(5_000)
    scripts = {finding.fingerprint: "x = 1\n" * 500 for finding in findings}
    coverage = tuple(OpCoverage(op=f"op{i}", tested=False, reason="r" * 300) for i in range(5_000))
    body = check(made.publication(made.report(*findings, coverage=coverage), scripts=scripts))
    assert f"more findings in the [report]({made.REPORT_URL})." in body.summary
    assert f"Details of {5_000 - body.text.count('<details><summary><b>')} more" in body.text
    assert "Not covered: 5000 ops not tested" in body.summary


def test_a_broken_run_says_so() -> None:
    body = check(made.publication(None, broken="no artifact @everyone-team"))
    assert body.summary.startswith("**OpDiff could not report on this push**: no artifact")
