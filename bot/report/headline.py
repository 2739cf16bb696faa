"""The one line on top, which a busy reviewer can act on: of report, comment, check run and step summary alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from bot.report import escape
from bot.report.not_covered import first_shortfall
from bot.report.results import FindingRow, ObservationRow, Results
from bot.report.standing import Standing, is_whole, standing
from bot.report.wording import (
    VERDICTS,
    counted,
    form,
    is_against_candidate,
    number,
    seen,
    what_differs,
)

SHOWN_OPS: Final = 3

_FAULTS: Final[dict[str, str]] = {
    "value": "value fault",
    "gradient": "gradient fault",
    "nan": "NaN fault",
    "shape": "shape fault",
    "dtype": "dtype fault",
    "side-effect": "side-effect fault",
    "accepts": "missing refusal",
    "refuses": "wrong refusal",
    "crash": "crash",
    "hang": "hang",
    "memory": "memory fault",
    "nondeterminism": "nondeterminism fault",
}
_PLURALS: Final = {"crash": "crashes"}
Code = Callable[[str], str]


def headline(results: Results, gone: int = 0) -> str:
    """One line of Markdown: what was found and who is wrong. ``gone``: findings that an earlier report had."""
    shown = claim(results, lambda op: escape.code(op, 80), gone)
    return f"**{shown}**{_explanation(results, standing(results))}"


def claim(results: Results, code: Code, gone: int = 0) -> str:
    """What was found, in a few words; ``code`` makes an op's name harmless for its place."""
    rows = standing(results)
    faults = rows.against_candidate
    if faults:
        return f"{_faults(faults)} in {_ops(faults, code)}"
    if rows.open:
        return f"{counted(len(rows.open), 'difference')} in {_ops(rows.open, code)}, none proven against the candidate"
    if not is_whole(results):
        return "Incomplete: nothing found so far, and no clean bill"
    if gone:
        return f"Fixed: {counted(gone, 'finding')} of the last report {'is' if gone == 1 else 'are'} gone"
    if results.changes is not None and not results.changes.ops and not results.coverage:
        return "No changed op"
    if results.findings:
        return "No new differences"
    return "No differences found"


def incomplete(results: Results) -> str:
    """Why not everything was done, in one visible line; empty when it was, and where the first line says it."""
    if is_whole(results) or not standing(results).open:
        return ""
    return f"**The run is incomplete**: {first_shortfall(results)}."


def tally(results: Results) -> str:
    """How much was tested: ``2 of 3 changed ops tested, 31 of 38 programs compared``."""
    parts: list[str] = []
    if results.coverage:
        tested = sum(row.tested for row in results.coverage)
        kind = "changed op" if results.changes is not None else "op"
        parts.append(f"{tested} of {counted(len(results.coverage), kind)} tested")
    elif results.changes is not None and not results.changes.ops:
        parts.append("the diff changes no op that could be found")
    counts = results.counts
    if counts.programs:
        parts.append(f"{number(counts.compared)} of {number(counts.programs)} programs compared")
    return ", ".join(parts) or "nothing was run"


def _explanation(results: Results, rows: Standing) -> str:
    faults = rows.against_candidate
    if len(faults) == 1:
        return f": {_observed(faults[0])} {_judged(faults[0])}"
    if faults:
        kinds = Counter(f.kind for f in faults)
        sure = Counter(f.confidence for f in faults)
        listed = ", ".join(_noun(count, kind) for kind, count in kinds.items())
        surest = ", ".join(f"{count} {name}" for name, count in sure.items())
        listed = f"{listed} ({surest})" if len(kinds) > 1 else surest
        return f": {listed}. The surest: {_observed(faults[0])}"
    if len(rows.open) == 1:
        return f": {_observed(rows.open[0])} {_judged(rows.open[0])}"
    if rows.open:
        verdicts = Counter(f.verdict for f in rows.open)
        return f": {', '.join(f'{count} {VERDICTS[name]}' for name, count in verdicts.items())}."
    tail = [tally(results)]
    if not is_whole(results):
        tail.insert(0, first_shortfall(results))
    if rows.known:
        tail.append(f"{len(rows.known)} known on the baseline")
    if rows.fixed:
        tail.append(f"{len(rows.fixed)} fixed by this pull request")
    if rows.ignored:
        tail.append(f"{len(rows.ignored)} ignored or accepted")
    if results.result == "findings":
        tail.append("with `fail-on: any` these fail the check")
    return f": {'; '.join(tail)}."


def _faults(faults: Sequence[FindingRow]) -> str:
    new = "new " if all(f.status == "new" for f in faults) else ""
    if len({f.kind for f in faults}) == 1:
        return _noun(len(faults), faults[0].kind, new)
    return f"{len(faults)} {new}faults"


def _noun(count: int, kind: str, adjective: str = "") -> str:
    noun = _FAULTS[kind]
    return f"{count} {adjective}{noun if count == 1 else _PLURALS.get(noun, noun + 's')}"


def _ops(findings: Sequence[FindingRow], code: Code) -> str:
    ops = list(dict.fromkeys(f.op for f in findings))
    more = f" and {counted(len(ops) - SHOWN_OPS, 'more op')}" if len(ops) > SHOWN_OPS else ""
    return ", ".join(code(op) for op in ops[:SHOWN_OPS]) + more


def _observed(finding: FindingRow) -> str:
    """What the blamed target had, and what another had: ``gradient of x`` is A on T, B on U."""
    observations = finding.mismatches[0].observations if finding.mismatches else ()
    first = next((o for o in observations if o.target in finding.blamed), None)
    first = first or (observations[0] if observations else None)
    if first is None:
        return f"{what_differs(finding)}."
    others = [o for o in observations if o.target not in _side(finding, first.target)]
    parts = [_on(first), *(f"but {_on(other)}" for other in others[:1])]
    label = finding.mismatches[0].label
    subject = f"{escape.code(label, 80)} is " if label else ""
    return f"{subject}{', '.join(parts)}."


def _on(observation: ObservationRow) -> str:
    what = seen(observation)
    if observation.happened is None and observation.value is None:
        what = form((observation,))
    return f"{what} on {escape.code(observation.target, 100)}"


def _side(finding: FindingRow, target: str) -> tuple[str, ...]:
    return next((side for side in finding.sides if target in side), (target,))


def _judged(finding: FindingRow) -> str:
    """Who is wrong, how sure that is, and why."""
    why = next((e.says for e in finding.evidence if e.rung == "verdict"), "")
    sure = f"{finding.confidence}: {escape.plain(why, 200)}" if why else finding.confidence
    if is_against_candidate(finding):
        who = "The candidate is" if finding.verdict == "candidate" else "Both sides are"
        return f"{who} wrong ({sure})."
    if finding.verdict == "upstream" and finding.blamed:
        return f"{escape.code(finding.blamed[0], 60)} is wrong ({sure})."
    return f"Verdict: {VERDICTS[finding.verdict]} ({sure})."
