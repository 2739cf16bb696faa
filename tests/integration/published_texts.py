"""Reports of any size and with any text in every field, without programs; and what people see when they are published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import made_findings as made
from publishing import BASE, Scene, archive_of
from unit.github.made_publications import Page, assert_harmless, shows_all

from bot.publish import Published
from bot.report.results import (
    ChangedOpRow,
    ChangesRow,
    EvidenceRow,
    FindingRow,
    LinesRow,
    MismatchRow,
    ObservationRow,
    OpCoverage,
    Results,
    UnmappedRow,
    dump_results,
)


def finding(number: int, text: str, **more: Any) -> FindingRow:
    """A finding whose every free text is ``text``, cut to what a report's field takes."""
    name = text[:500]
    fields: dict[str, Any] = {
        "fingerprint": f"{number:016x}",
        "op": name,
        "kind": "value",
        "verdict": "candidate",
        "blamed": (made.WRONG,),
        "confidence": "strong",
        "status": "new",
        "sides": ((made.WRONG,), (made.RIGHT, name)),
        "program": f"{number:032x}",
        "mismatches": (
            MismatchRow(
                kind="value",
                role="output",
                name=name,
                label=name,
                observations=(
                    ObservationRow(target=made.WRONG, dtype=name, shape=(3,), value=text[:4_000]),
                    ObservationRow(target=name, happened=text[:4_000]),
                ),
                note=text[:4_000],
            ),
        ),
        "evidence": (
            EvidenceRow(rung="verdict", says=text[:4_000]),
            EvidenceRow(rung=name, says=text[:4_000]),
        ),
        "known_to_suite": text[:4_000],
    }
    return FindingRow.model_validate(fields | more)


def report(scene: Scene, findings: Sequence[FindingRow], text: str, lines: int = 1) -> bytes:
    """The artifact: each finding's op changes ``lines`` lines of ``op.py``, and every note is ``text``."""
    name, note = text[:500], text[:4_000]
    ops = tuple(
        ChangedOpRow(
            op=op,
            how="indirect",
            path=(note,),
            lines=tuple(LinesRow(file="op.py", first=n, last=n) for n in range(1, lines + 1)),
        )
        for op in dict.fromkeys(row.op for row in findings)
    )
    results: Results = made.results(
        changes=ChangesRow(
            framework="oneflow",
            base=scene.pull.base_sha,
            head=scene.pull.head_sha,
            pull_request=scene.pull.number,
            ops=ops,
            unmapped=(UnmappedRow(file=note, why=note),),
            notes=(note,),
        ),
        findings=tuple(findings),
        coverage=(OpCoverage(op=name, tested=False, reason=note),),
        notes=(note,),
        shortfalls=(note,),
        result="findings",
    )
    return archive_of({"results.json": dump_results(results)})


def everything_shown(scene: Scene, published: Published) -> list[tuple[str, str]]:
    """All that was posted and all that was written, by its name; Markdown and plain text."""
    assert published.out is not None
    run = scene.check_run
    shown = [
        ("comment", scene.comment_body),
        ("summary", run.summary or ""),
        ("text", run.text or ""),
        ("title", run.title or ""),
        ("note", published.note),
    ]
    shown += [(f"annotation {n}", it.message) for n, it in enumerate(run.annotations)]
    shown += [(f"annotation {n} title", it.title or "") for n, it in enumerate(run.annotations)]
    shown += [(path.name, path.read_text()) for path in sorted(Path(published.out).glob("*.md"))]
    return shown


def own_links(scene: Scene) -> set[str]:
    return {
        f"https://github.com/{BASE}/actions/runs/77",
        f"https://github.com/{BASE}/actions/runs/{scene.run.id}",
    }


__all__ = [
    "Page",
    "assert_harmless",
    "everything_shown",
    "finding",
    "own_links",
    "report",
    "shows_all",
]
