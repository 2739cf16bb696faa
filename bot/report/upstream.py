"""A new-issue page of an upstream framework, filled in with a finding that it is blamed for.

A person reads, changes and submits it; the bot never does. The text is in that person's voice and says that a tool
found the difference. Where each project wants what is the table ``upstream.yml``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import resources
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from bot.report import escape
from bot.report.results import FindingRow, MismatchRow, ObservationRow, Results, TargetFacts
from bot.report.wording import form

MAX_URL_BYTES: Final = 8_191
"""What GitHub's servers take of an address, encoded (github/docs issue 5136)."""
MAX_TITLE: Final = 150
_DEATHS: Final = ("crash", "hang", "memory")


class Upstream(BaseModel):
    """One row of ``upstream.yml``; the file explains the columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    template: Annotated[str, Field(pattern=r"^[\w.-]*$")]
    text: Annotated[str, Field(pattern=r"^[a-z]+$")]
    versions: Annotated[str, Field(pattern=r"^[a-z]*$")]
    security: Annotated[str, Field(pattern=r"^https://github\.com/[\w./-]+$")]
    source: Annotated[str, Field(min_length=10)]


@functools.cache
def upstreams() -> dict[str, Upstream]:
    """Framework -> where and how its bugs are reported, validated."""
    text = resources.files("bot.report").joinpath("upstream.yml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Upstream]).validate_python(yaml.safe_load(text))


def new_issue_url(finding: FindingRow, results: Results, script: str = "") -> str | None:
    """The address of a filled-in new-issue page, at most MAX_URL_BYTES; None for a finding that no upstream is blamed for.

    ``script`` is the repro script's source. Where all does not fit, the script gives way first, then details.
    """
    target = _blamed(finding, results)
    row = upstreams().get(target.framework) if target is not None else None
    if row is None or target is None:
        return None
    for text in _texts(finding, target, row, results, script):
        url = _url(row, _title(finding, target), text, _versions(results))
        if len(url) <= MAX_URL_BYTES:
            return url
    return f"https://github.com/{row.repository}/issues/new"


def _blamed(finding: FindingRow, results: Results) -> TargetFacts | None:
    if finding.verdict != "upstream":
        return None
    return next((t for t in results.targets if t.label in finding.blamed), None)


def _url(row: Upstream, title: str, text: str, versions: str) -> str:
    """Always ASCII: everything else is percent-encoded."""
    fields = {"template": row.template, "title": title, row.text: text}
    if row.versions:
        fields[row.versions] = versions
    else:
        fields[row.text] += f"\n\n### Versions\n\n{versions}"
    given = {key: value for key, value in fields.items() if value}
    query = urlencode(given, quote_via=quote, safe="", errors="replace")
    return f"https://github.com/{row.repository}/issues/new?{query}"


def _title(finding: FindingRow, target: TargetFacts) -> str:
    label = next((m.label for m in finding.mismatches if m.label), "")
    place = f" of {label}" if label and not label.startswith(finding.kind) else ""
    return escape.log_line(f"{target.framework} {finding.op}: {finding.kind}{place}", MAX_TITLE)


def _texts(
    finding: FindingRow, target: TargetFacts, row: Upstream, results: Results, script: str
) -> Iterator[str]:
    """The report, from the whole to one paragraph."""
    head = _head(finding, target, row)
    code = (
        f"### Script\n\nIt exits with 1 while the bug is there.\n\n{escape.fence(script, 'python')}"
    )
    attach = "### Script\n\n(Attach the finding's `repro.py` here.)"
    if script:
        yield "\n\n".join([*head, *_details(finding, results, 10), code, _OWN])
        yield "\n\n".join([*head, *_details(finding, results, 1), code, _OWN])
    yield "\n\n".join([*head, *_details(finding, results, 10), attach, _OWN])
    yield "\n\n".join([*head, *_details(finding, results, 1), attach, _OWN])
    yield "\n\n".join([*head, attach, _OWN])


_OWN: Final = """### Before sending

- [ ] I ran the script myself, and cut it down to what matters.
- [ ] I searched the open and closed issues for this op.
- [ ] I said in my own words why this result is the wrong one."""


def _head(finding: FindingRow, target: TargetFacts, row: Upstream) -> list[str]:
    first = (
        f"I compared {escape.code(finding.op, 80)} on several frameworks and builds with the same inputs, using a tool "
        f"(OpDiff) that found this difference and drafted this text. It says that {escape.code(target.label, 80)} "
        f"is the one that is wrong ({finding.confidence})."
    )
    if finding.kind not in _DEATHS:
        return [first]
    policy = (
        f"(Before this is sent in public: an input that ends the process may be a vulnerability. {row.security} says "
        "how to report one. Delete this line when it does not apply.)"
    )
    return [policy, first]


def _details(finding: FindingRow, results: Results, most: int) -> list[str]:
    lines = [line for mismatch in finding.mismatches[:most] for line in _mismatch(mismatch, most)]
    left = len(finding.mismatches) - most
    if left > 0:
        lines.append(f"- and {left} more")
    why = [f"- {escape.plain(e.says, 300)}" for e in finding.evidence[:most]]
    parts = ["### What differs\n\n" + "\n".join(lines)] if lines else []
    return [*parts, "### Why it is wrong\n\n" + "\n".join(why)] if why else parts


def _mismatch(mismatch: MismatchRow, most: int) -> Iterator[str]:
    yield f"- {escape.code(mismatch.label or mismatch.kind, 80)}"
    for seen in mismatch.observations[:most]:
        yield f"  - {escape.code(seen.target, 80)}: {_had(seen)}"


def _had(seen: ObservationRow) -> str:
    """What a target made; Markdown."""
    if seen.happened:
        return escape.code(seen.happened, 200)
    if seen.value is None:
        return form((seen,))
    return escape.code(f"{seen.value} ({seen.dtype})", 200)


def _versions(results: Results) -> str:
    rows = [
        f"- {escape.code(f'{t.framework} {t.version}', 80)}"
        for t in results.targets[:10]
        if t.version
    ]
    cpu = [f"- CPU: {escape.plain(results.run.cpu, 80)}"] if results.run.cpu else []
    return "\n".join([*dict.fromkeys(rows), *cpu]) or "(not recorded)"
