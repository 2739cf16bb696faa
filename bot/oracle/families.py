"""Families: findings of several ops that share a cause become one, with a list of ops. Pure.

Kind, verdict, blame, confidence, status and sides being equal is not enough: two ops may be wrong by value for two reasons.
At least :data:`LEAST` ops must show the same positive sign of one cause at their primary mismatch:

- an exception or death with one signature, that says something and names none of the ops, for inputs of the same dtypes;
- a result of no dimensions on some side, and the same shapes on every target: ``()`` against ``(1,)``;
- the same dtype on every target, not all equal;
- for inputs with the same special values and dtypes, NaN, an infinity or a number on the same targets.

Everything else stays on its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bot.oracle.cause import primary
from bot.oracle.finding import Evidence, Finding, Mismatch
from bot.oracle.roles import Player
from bot.programs.program import canonical_json

LEAST: Final = 3  # ops
MAX_OPS: Final = 100
_WORD: Final = re.compile(r"[A-Za-z]{2,}")


def joined(findings: Iterable[Finding], cast: Mapping[str, Player]) -> list[Finding]:
    """The findings, each family in the place of its first; the same findings in any order give the same families."""
    families: dict[str, list[Finding]] = {}
    alone: list[Finding] = []
    for finding in findings:
        key = _key(finding, cast)
        if key is None:
            alone.append(finding)
        else:
            families.setdefault(key, []).append(finding)
    for key, members in families.items():
        if len({member.op for member in members}) < LEAST or _names_an_op(members):
            alone += members
        else:
            alone.append(_one(key, members))
    return sorted(alone, key=lambda finding: (finding.op, finding.kind, finding.fingerprint))


def _one(key: str, members: Sequence[Finding]) -> Finding:
    """The family as one finding: the first op's, whose program shows it."""
    first = min(members, key=lambda member: (member.op, member.fingerprint))
    others = tuple(sorted({member.op for member in members} - {first.op}))[:MAX_OPS]
    says = f"{len(others)} other ops show the same sign of one cause: {_sign_text(first)}"
    return replace(
        first,
        fingerprint=hashlib.blake2b(key.encode(), digest_size=8).hexdigest(),
        ops=others,
        count=sum(member.count for member in members),
        evidence=(*first.evidence, Evidence("family", says)),
    )


def _key(finding: Finding, cast: Mapping[str, Player]) -> str | None:
    """What a family has in common, without versions; None for a finding that shows no sign."""
    mismatch = primary(finding.mismatches)
    sign = _sign(finding, mismatch, cast)
    if sign is None:
        return None

    def unversioned(labels: Iterable[str]) -> list[str]:
        return sorted(cast[label].without_version for label in labels)

    sides = sorted(unversioned(side) for side in finding.sides)
    fields: list[Any] = [
        "family", finding.kind, finding.verdict, finding.confidence, finding.status,
        unversioned(finding.blamed), sides, sign,
    ]  # fmt: skip
    return canonical_json(fields).decode()


def _sign(finding: Finding, mismatch: Mismatch, cast: Mapping[str, Player]) -> list[Any] | None:
    words = finding.argument_class
    dtypes = list(words.get("dtypes", []))
    seen = {cast[o.target].without_version: o for o in mismatch.observations if o.target in cast}
    if not mismatch.role:
        telling = len(_WORD.findall(mismatch.note)) >= LEAST
        return ["signature", mismatch.note, dtypes] if telling else None
    place = "gradient" if mismatch.role == "gradient" else "forward"
    if mismatch.kind == "shape":
        shapes = {target: list(o.shape) for target, o in seen.items() if o.shape is not None}
        return ["shape", place, sorted(shapes.items())] if [] in shapes.values() else None
    if mismatch.kind == "dtype":
        found = sorted((target, o.dtype) for target, o in seen.items())
        return ["dtype", place, found] if len({dtype for _, dtype in found}) > 1 else None
    special = list(words.get("special", []))
    if mismatch.kind == "nan" and special:
        classes = sorted((target, _class(o.value)) for target, o in seen.items())
        return ["nan", place, dtypes, special, classes]
    return None


def _class(value: str | None) -> str:
    """``nan``, ``inf``, ``-inf`` or ``number``."""
    return value if value in ("nan", "inf", "-inf") else "number"


def _names_an_op(members: Sequence[Finding]) -> bool:
    """Whether their one signature speaks of one of the ops: then the others have it through that op, or by chance."""
    first = primary(members[0].mismatches)
    note = "" if first.role else first.note
    said = {str(word).lower() for word in re.findall(r"\w+", note)}
    return any(member.op.rpartition(".")[2].lower() in said for member in members)


def _sign_text(finding: Finding) -> str:
    mismatch = primary(finding.mismatches)
    if not mismatch.role:
        return mismatch.note
    if mismatch.kind == "shape":
        return ", ".join(f"{list(o.shape or ())} on {o.target}" for o in mismatch.observations)
    if mismatch.kind == "dtype":
        return ", ".join(f"{o.dtype} on {o.target}" for o in mismatch.observations)
    return ", ".join(f"{_class(o.value)} on {o.target}" for o in mismatch.observations)
