"""Publications written by hand and by hypothesis, and a reader of what GitHub would show of their Markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from html.parser import HTMLParser
from typing import Any, get_args

import cmarkgfm
from cmarkgfm.cmark import Options
from hypothesis import strategies as st

from bot.github.publication import Publication
from bot.github.state import MAX_PAST, CommentState, Decision, Earlier, Seen
from bot.oracle.finding import Confidence, FindingStatus, Kind, Verdict
from bot.report.results import (
    ChangedOpRow,
    ChangesRow,
    Counts,
    DifferenceRow,
    EvidenceRow,
    FindingRow,
    LinesRow,
    MismatchRow,
    ObservationRow,
    OpCoverage,
    Results,
    RunFacts,
    ShardRow,
    TargetCoverage,
    TargetFacts,
    UnmappedRow,
)

HEAD, BASE = "a1" * 20, "b2" * 20
RUN_URL = "https://github.example/owner/repo/actions/runs/77"
REPORT_URL = "https://github.example/owner/repo/actions/runs/78"
DRAFT_URL = "https://github.example/upstream/project/issues/new?title=t&body=" + "x" * 500
OURS = (RUN_URL, REPORT_URL, DRAFT_URL)

HOSTILE = [
    "@everyone-team",
    "</details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</code></summary></details>",
    "<!-- opdiff:1 AAAA -->",
    "-->",
    "```\n# heading\n```\n",
    "``` ` `` ````",
    "::set-output name=x::y",
    "\n::error::x",
    "##[error]x",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnp.exe\u2066\u200f",
    "a|b\\|c\\",
    "[click](https://evil.example) ![x](//evil.example/p.png)",
    "https://evil.example www.evil.example evil@evil.example mailto:evil@evil.example",
    "#123 GH-12 owner/repo#5 GHSA-aaaa-bbbb-cccc CVE-2020-1234",
    ":smile: $x^2$ ~~x~~ **b** _i_",
    "&lt;b&gt; &#64;user",
    "- item\n> quote\n1. item\n***\n| a |\n| --- |",
    "\r\n\r\n\u2028\u0085\x00\x0b",
    "\U000e0041\ud800\U0001f308",
    "x" * 600,
]


def long_text(limit: int) -> st.SearchStrategy[str]:
    """Hostile text of at most ``limit`` characters, valid in JSON."""
    parts = st.sampled_from(HOSTILE) | st.text(max_size=30)
    joined = st.lists(parts, max_size=4).map("".join)
    return joined.map(lambda text: text.encode("utf-8", "replace").decode()[:limit])


text, name = long_text(4_000), long_text(500)
count = st.integers(0, 50) | st.just(10**19)
measured = (
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["nan", "inf"])
)


def words(literal: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(literal))


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


observation = st.builds(
    ObservationRow, target=name, dtype=st.none() | name, shape=st.none() | few(count), value=st.none() | text,
    happened=st.none() | text,
)  # fmt: skip
difference = st.builds(
    DifferenceRow, differing=count, elements=count, largest_absolute=measured, largest_relative=measured,
    largest_ulp=st.none() | count, first_index=st.none() | few(count),
)  # fmt: skip
mismatch = st.builds(
    MismatchRow, kind=words(Kind), role=name, name=name, label=name, observations=few(observation),
    difference=st.none() | difference, note=text,
)  # fmt: skip
evidence = st.builds(EvidenceRow, rung=name | st.just("verdict"), says=text)
fingerprints = st.text("0123456789abcdef", min_size=8, max_size=16)
finding = st.builds(
    FindingRow, fingerprint=fingerprints | name, op=name, kind=words(Kind), verdict=words(Verdict), blamed=few(name),
    confidence=words(Confidence), status=st.none() | words(FindingStatus), sides=few(few(name)), program=name,
    mismatches=few(mismatch), evidence=few(evidence), count=count, known_to_suite=st.none() | text,
    ignored=st.none() | text, folder=text,
)  # fmt: skip
lines = st.tuples(text, st.integers(1, 10**12), st.integers(0, 10**12)).map(
    lambda drawn: LinesRow(file=drawn[0], first=drawn[1], last=drawn[1] + drawn[2])
)
changed_op = st.builds(
    ChangedOpRow,
    op=name,
    how=st.sampled_from(["direct", "indirect"]),
    path=few(text),
    lines=few(lines),
)
changes = st.builds(
    ChangesRow,
    ops=few(changed_op),
    unmapped=few(st.builds(UnmappedRow, file=text, why=text)),
    notes=few(text),
)
reasons = st.dictionaries(text, count, max_size=3)
coverage = st.builds(
    OpCoverage, op=name, tested=st.booleans(), reason=text,
    targets=few(st.builds(TargetCoverage, target=name, programs=count, unsupported=reasons)),
)  # fmt: skip
target = st.builds(
    TargetFacts, label=name, isolation=name | st.just("unisolated: no"), failed=st.none() | text
)
shard = st.builds(
    ShardRow, shard=name, device=name, state=st.sampled_from(["whole", "broken", "lost"]), note=text
)
results = st.builds(
    Results, result=st.sampled_from(["clean", "incomplete", "findings"]), run=st.builds(RunFacts, opdiff=name),
    targets=few(target), changes=st.none() | changes, coverage=few(coverage),
    counts=st.builds(Counts, programs=count, compared=count, skipped=reasons), findings=few(finding),
    notes=few(text), shortfalls=few(text), shards=few(shard),
)  # fmt: skip
seen = st.builds(
    Seen, fingerprint=fingerprints, op=long_text(120), kind=words(Kind), verdict=words(Verdict),
    status=st.none() | words(FindingStatus),
)  # fmt: skip
decision = st.builds(
    Decision, comment=st.integers(1, 2**53), verb=st.sampled_from(["wrong", "accept", "ignore"]), author=long_text(100),
    head=st.just(HEAD), fingerprint=fingerprints, reason=long_text(300), verdict=st.none() | words(Verdict),
)  # fmt: skip
earlier = st.builds(
    Earlier, head=st.none() | st.sampled_from([HEAD, BASE]), seen=few(seen), seen_left_out=st.integers(0, 5_000)
)  # fmt: skip
states = st.builds(
    CommentState, head=st.none() | st.sampled_from([HEAD, BASE]), run=st.integers(0, 2**53), seen=few(seen),
    seen_left_out=st.integers(0, 5_000), decisions=few(decision),
    earlier=st.none() | earlier, past=st.dictionaries(words(Verdict), st.integers(1, MAX_PAST)),
)  # fmt: skip


def publication(given: Results | None = None, **more: Any) -> Publication:
    fields: dict[str, Any] = {
        "repository": "owner/repo",
        "number": 5,
        "base": BASE,
        "head": HEAD,
        "run": 77,
        "attempt": 1,
        "run_url": RUN_URL,
        "report_url": REPORT_URL,
        "results": given,
        "untrusted_run": False,
    }
    return Publication(**(fields | more))


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    drawn: Results | None = draw(st.none() | results)
    named = [] if drawn is None else [f.fingerprint for f in drawn.findings]
    return publication(
        drawn,
        broken=draw(text),
        untrusted_run=draw(st.booleans()),
        previous=draw(st.none() | states),
        scripts={fingerprint: draw(text) for fingerprint in named},
        drafts={
            fingerprint: draw(st.sampled_from([DRAFT_URL, "javascript:alert(1)"]))
            for fingerprint in named
        },
    )


def row(fingerprint: str = "0123abcd0123abcd", **more: Any) -> FindingRow:
    """A wrong gradient of the candidate."""
    fields: dict[str, Any] = {
        "fingerprint": fingerprint,
        "op": "nn.functional.layer_norm",
        "kind": "gradient",
        "verdict": "candidate",
        "blamed": ("oneflow@pr:cpu",),
        "confidence": "strong",
        "status": "new",
        "sides": (("oneflow@pr:cpu",), ("oneflow==0.9.0:cpu",)),
        "program": "d",
        "mismatches": (
            MismatchRow(
                kind="gradient",
                role="gradient",
                name="input",
                label="gradient of input",
                observations=(
                    ObservationRow(target="oneflow@pr:cpu", dtype="float32", shape=(1, 2), value="-0.5"),
                    ObservationRow(target="oneflow==0.9.0:cpu", dtype="float32", shape=(1, 2), value="0.25"),
                ),
                difference=DifferenceRow(
                    differing=1, elements=2, largest_absolute=0.75, largest_relative=3.0, largest_ulp=9, first_index=(0, 1)
                ),
            ),
        ),
        "evidence": (EvidenceRow(rung="verdict", says="two witnesses agree"),),
    }  # fmt: skip
    return FindingRow.model_validate(fields | more)


def report(*findings: FindingRow, **more: Any) -> Results:
    """A whole run of one changed op."""
    fields: dict[str, Any] = {
        "result": "findings" if findings else "clean",
        "run": RunFacts(opdiff="0.1.0"),
        "findings": findings,
        "coverage": (OpCoverage(op="nn.functional.layer_norm", tested=True),),
        "changes": ChangesRow(
            ops=(
                ChangedOpRow(
                    op="nn.functional.layer_norm",
                    how="direct",
                    path=("norm.py:144 changes function layer_norm",),
                    lines=(LinesRow(file="oneflow/norm.py", first=144, last=146),),
                ),
            )
        ),
        "counts": Counts(programs=38, compared=31),
    }
    return Results.model_validate(fields | more)


def many(number: int, **more: Any) -> tuple[FindingRow, ...]:
    return tuple(row(f"{index:016x}", op=f"op{index}", **more) for index in range(number))


class Page(HTMLParser):
    """Rendered Markdown: its elements, links and the text that is not code. Raises AssertionError for open elements."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.prose: list[str] = []
        self.text: list[str] = []
        self.loose_dollars = False  # GitHub reads mathematics between them
        html = cmarkgfm.markdown_to_html_with_extensions(
            markdown,
            options=Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES,
            extensions=["table", "autolink", "strikethrough", "tasklist"],
        )
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {key for key, _ in attrs}
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        if tag not in ("br", "hr", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if not {"code", "pre"} & set(self.open):
            self.prose.append(data)
            self.loose_dollars |= "$" in data and self.open[-1:] != ["span"]


ELEMENTS = {
    "p", "strong", "em", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "a", "b", "sub",
    "details", "summary", "blockquote", "h2", "span",
}  # fmt: skip


def assert_harmless(
    markdown: str, ours: Collection[str] = OURS, elements: Collection[str] = ()
) -> Page:
    """What GitHub would show has only our elements, balanced, ``ours`` links, no mention, nothing hidden, no command.

    ``elements``: what else may be there.
    """
    page = Page(markdown)
    unknown = page.elements - ELEMENTS - set(elements)
    assert not unknown, unknown
    assert page.attributes <= {"href", "align", "lang", "class"}, page.attributes
    assert set(page.links) <= {address.replace("&", "&") for address in ours}, page.links
    prose = "".join(page.prose)
    assert not re.search(r"@\w", prose)
    assert not re.search(r"(?<!&)#\d", prose)
    assert not re.search(r"(?i)gh-\d|https?://|www\.|ghsa-|cve-\d", prose)
    assert not page.loose_dollars
    hidden = [c for c in markdown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert set(hidden) <= {"\n", "\u200b"}
    for line in markdown.split("\n"):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
    return page


def shows_all(text: str) -> bool:
    """Whether plain text is one line that hides nothing."""
    hidden = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return hidden <= {"\u200b"}
