"""The one line on top, which a busy reviewer can act on; as Markdown and as plain text for a check run's title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from bot.github.not_covered import first_shortfall
from bot.github.publication import Publication
from bot.github.standing import Since, Standing, is_whole, since, standing
from bot.report import escape
from bot.report.results import FindingRow, ObservationRow, Results
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
_Code = Callable[[str], str]


def headline(publication: Publication) -> str:
    """One line of Markdown: what was found and who is wrong, or why nothing can be said."""
    results = publication.results
    if results is None:
        return (
            f"**OpDiff could not report on this push**: {broken_reason(publication)}. "
            "Nothing is known of it, so this is no clean bill."
        )
    return headline_of(results, since(publication))


def headline_of(results: Results, changed: Since | None = None) -> str:
    """The line of results that could be read."""
    rows = standing(results)
    claim = _claim(results, rows, changed, lambda op: escape.code(op, 80))
    return f"**{claim}**{_explanation(results, rows)}"


def title(publication: Publication) -> str:
    """The same claim as one line of plain text."""
    results = publication.results
    if results is None:
        return "No report: the run is broken"
    claim = _claim(
        results,
        standing(results),
        since(publication),
        lambda op: escape.visible(op, 80),
    )
    return f"{claim} (untrusted run)" if publication.untrusted_run else claim


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


def broken_reason(publication: Publication) -> str:
    """Why there is no report; Markdown."""
    return escape.plain(publication.broken, 500).rstrip(". ") or "the run left no report"


def _claim(results: Results, rows: Standing, changed: Since | None, code: _Code) -> str:
    faults = rows.against_candidate
    if faults:
        return f"{_faults(faults)} in {_ops(faults, code)}"
    if rows.open:
        return f"{counted(len(rows.open), 'difference')} in {_ops(rows.open, code)}, none proven against the candidate"
    if not is_whole(results):
        return "Incomplete: nothing found so far, and no clean bill"
    if changed is not None and changed.gone:
        return f"Fixed: {counted(len(changed.gone), 'finding')} of the last report {'is' if len(changed.gone) == 1 else 'are'} gone"
    if results.changes is not None and not results.changes.ops and not results.coverage:
        return "No changed op"
    if results.findings:
        return "No new differences"
    return "No differences found"


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


def _ops(findings: Sequence[FindingRow], code: _Code) -> str:
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
