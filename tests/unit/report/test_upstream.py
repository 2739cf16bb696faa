from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import parse_qs, urlsplit

import made_findings as made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.report.results import FindingRow, Results
from bot.report.rows import finding_row
from bot.report.upstream import new_issue_url, upstreams
from bot.targets.recipes import load_recipes

LABEL = "torch==2.13.0:cpu"


def row(**more: Any) -> FindingRow:
    fields: dict[str, Any] = {"verdict": "upstream", "blamed": (LABEL,)}
    return finding_row(made.doubled_bundle(**(fields | more)).finding)


def results_of(framework: str) -> Results:
    first, second = made.TARGETS
    return made.results(targets=(first, second.model_copy(update={"framework": framework})))


def query(url: str | None) -> dict[str, str]:
    assert url is not None
    assert len(url.encode()) <= 8_191
    assert url.isascii()
    fields = parse_qs(urlsplit(url).query, strict_parsing=True)
    return {key: value for key, (value,) in fields.items()}


@pytest.mark.parametrize(
    ("framework", "page", "fields"),
    [
        ("torch", "pytorch/pytorch", {"title", "body"}),
        ("jax", "jax-ml/jax", {"template", "title", "body"}),
        ("paddle", "PaddlePaddle/Paddle", {"template", "title", "code", "others"}),
        ("oneflow", "Oneflow-Inc/oneflow", {"template", "title", "body"}),
        ("mindspore", "mindspore-ai/mindspore", {"template", "title", "body"}),
        ("megengine", "MegEngine/MegEngine", {"template", "title", "body"}),
    ],
)
def test_each_framework_has_its_page(framework: str, page: str, fields: set[str]) -> None:
    url = new_issue_url(row(), results_of(framework), "import torch\n")
    assert url is not None
    assert url.startswith(f"https://github.com/{page}/issues/new?")
    assert set(query(url)) == fields
    assert set(upstreams()) >= {framework}


def test_templates_are_named_as_their_repositories_have_them() -> None:
    named = {name: row.template for name, row in upstreams().items()}
    assert named == {
        "torch": "", "jax": "none", "paddle": "1_bug-report.yml", "oneflow": "bug_report.md",
        "mindspore": "bug-report.md", "megengine": "bug-issue.md",
    }  # fmt: skip


def test_the_text_says_what_was_found_and_by_what() -> None:
    fields = query(new_issue_url(row(), results_of("torch"), "import torch\nprint(1)\n"))
    assert fields["title"] == "torch mul: value of output r0"
    body = fields["body"]
    assert "using a tool (OpDiff) that found this difference" in body
    assert "```python\nimport torch\nprint(1)\n```" in body
    assert "`4.0 (float32)`" in body
    assert "its error is 3e+06 times the other's" in body
    assert "- [ ] I searched the open and closed issues" in body
    assert "`torch 2.13.0`" in body


def test_without_a_value_the_form_is_said() -> None:
    """Of two shapes that differ no element was seen."""
    observations = (
        made.Observation(LABEL, "float32", (1, 3), None),
        made.Observation("oneflow==0.9.0:cpu", None, None, None),
    )
    mismatches = (made.mismatch("shape", "output", "r0", observations=observations),)
    body = query(new_issue_url(row(kind="shape", mismatches=mismatches), results_of("torch")))[
        "body"
    ]
    assert f"  - `{LABEL}`: `float32[1, 3]`\n" in body
    assert "  - `oneflow==0.9.0:cpu`: –\n" in body
    assert "None" not in body


@pytest.mark.parametrize("verdict", ["candidate", "both", "convention", "flaky", "undecided"])
def test_only_what_upstream_is_blamed_for(verdict: str) -> None:
    assert new_issue_url(row(verdict=verdict), results_of("torch")) is None


def test_unknown_sides_have_no_page() -> None:
    assert new_issue_url(row(), results_of("numpy")) is None
    assert new_issue_url(row(blamed=("somebody",)), results_of("torch")) is None
    assert new_issue_url(row(blamed=()), results_of("torch")) is None


@pytest.mark.parametrize("kind", ["crash", "hang", "memory"])
def test_a_crash_names_the_security_policy_first(kind: str) -> None:
    body = query(new_issue_url(row(kind=kind), results_of("torch")))["body"]
    assert "https://github.com/pytorch/pytorch/security/policy" in body.split("\n", 1)[0]
    assert "security" not in query(new_issue_url(row(), results_of("torch")))["body"]


@pytest.mark.parametrize(
    "script", ["x" * 20_000, "# \N{PILE OF POO}\n" * 2_000, "&=%+# \n" * 3_000]
)
def test_a_script_that_does_not_fit_gives_way_whole(script: str) -> None:
    body = query(new_issue_url(row(), results_of("torch"), script))["body"]
    assert "(Attach the finding's `repro.py` here.)" in body
    assert "```" not in body
    assert "What differs" in body


def test_the_largest_script_that_fits_is_there_whole() -> None:
    sizes = [
        size
        for size in range(5_000, 8_000, 100)
        if "x" * size in query(new_issue_url(row(), results_of("torch"), "x" * size))["body"]
    ]
    assert sizes
    url = new_issue_url(row(), results_of("torch"), "x" * sizes[-1])
    assert url is not None
    assert len(url) > 8_000


def test_details_give_way_when_they_alone_are_too_long() -> None:
    seen = made.Observation(LABEL, "float32", (3,), "\N{PILE OF POO}" * 300)
    mismatches = tuple(
        made.mismatch("value", "output", f"r{i}", observations=(seen,) * 10) for i in range(50)
    )
    body = query(new_issue_url(row(mismatches=mismatches), results_of("torch"), "pass"))["body"]
    assert "(OpDiff)" in body


hostile = st.text(max_size=300) | st.sampled_from(
    [
        "@everyone", "</details><script>alert(1)</script>", "```\nfence", "[x](https://evil.example)", "&body=evil",
        "#1", "\u202e", "\x1b[2J", "| a | b |", "\udc80", "x" * 20_000, "\N{PILE OF POO}" * 4_000, "::error::x",
    ]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(hostile, hostile, hostile, hostile, st.sampled_from(sorted(upstreams())))
def test_hostile_texts_stay_text(
    op: str, value: str, says: str, script: str, framework: str
) -> None:
    seen = made.Observation(LABEL, "float32", (3,), value, happened=says)
    evidence = (made.Evidence("float64", says, (LABEL,)),)
    finding = row(
        op=op,
        mismatches=(made.mismatch("value", "output", value, observations=(seen, seen)),),
        evidence=evidence,
    )
    fields = query(new_issue_url(finding, results_of(framework), script))
    assert set(fields) <= {"title", "body", "template", "code", "others"}
    hidden = {
        c for c in fields["title"] if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    assert hidden <= {"\u200b"}
    text = fields.get("body") or fields["code"]
    tokens = MarkdownIt("commonmark").parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    assert not any(t.type in ("html_block", "link_open") for t in [*tokens, *inline])
    html = {child.content for child in inline if child.type == "html_inline"}
    assert html <= {"<span>", "</span>"}  # around a dollar sign
    shown = "".join(child.content for child in inline if child.type == "text")
    assert "@everyone" not in shown
    assert "\n### Before sending\n" in text


def test_upstreams_are_frameworks_that_run_here() -> None:
    """NumPy is a reference that runs here, and has no page."""
    assert set(upstreams()) <= set(load_recipes().frameworks())
    assert {"torch", "oneflow", "paddle", "mindspore", "megengine", "jax"} <= set(upstreams())
    assert new_issue_url(row(), results_of("numpy")) is None
