"""What changed since the push that the comment spoke of before, and what the comment remembers of this one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bot.github.marker import fitted
from bot.github.publication import Publication
from bot.github.state import MAX_DECISIONS, MAX_PAST, MAX_SEEN, CommentState, Earlier, Seen
from bot.oracle.finding import Verdict, is_fingerprint
from bot.report.results import FindingRow, Results
from bot.report.standing import is_whole, standing


@dataclass(frozen=True)
class Since:
    """What changed since the report before.

    ``gone`` were open at another commit, are not there any more, and their ops were tested in a run that is whole.
    ``unsure`` are not there either, but this run does not prove them fixed. ``settled`` are there and don't count any
    more.
    """

    head: str
    same_head: bool
    new: tuple[FindingRow, ...]
    still: tuple[FindingRow, ...]
    gone: tuple[Seen, ...]
    unsure: tuple[Seen, ...]
    settled: int
    left_out: int


def since(publication: Publication) -> Since | None:
    """Against the state of the comment so far; None without one, and for a broken run."""
    previous, results = publication.previous, publication.results
    if previous is None or previous.head is None or results is None:
        return None
    before = {seen.fingerprint for seen in previous.seen}
    present = {finding.fingerprint for finding in results.findings}
    open_now = standing(results).open
    open_fingerprints = {finding.fingerprint for finding in open_now}
    were_open = [seen for seen in previous.seen if seen.status not in ("known", "fixed")]
    absent = [seen for seen in were_open if seen.fingerprint not in present]
    # The same commit run again: what is not seen then has not been fixed.
    same_head = previous.head == publication.head
    gone = tuple(seen for seen in absent if not same_head and _is_proof(results, seen.op))
    return Since(
        head=previous.head,
        same_head=same_head,
        new=tuple(f for f in open_now if f.fingerprint not in before),
        still=tuple(f for f in open_now if f.fingerprint in before),
        gone=gone,
        unsure=tuple(seen for seen in absent if seen not in gone),
        settled=sum(
            seen.fingerprint in present and seen.fingerprint not in open_fingerprints
            for seen in were_open
        ),
        left_out=previous.seen_left_out,
    )


def next_state(publication: Publication) -> CommentState:
    """What the comment remembers from now on: at most what its marker holds.

    Decisions are kept. A broken run keeps the findings of the report before, and a finding whose absence proves
    nothing stays too: only what was seen to be gone is forgotten.
    """
    previous = publication.previous or CommentState()
    seen, left_out = previous.seen, previous.seen_left_out
    if publication.results is not None:
        sorted_rows = standing(publication.results)
        rows = [*sorted_rows.open, *sorted_rows.fixed, *sorted_rows.known, *sorted_rows.ignored]
        there = {row.fingerprint: _seen(row) for row in rows if is_fingerprint(row.fingerprint)}
        changed = since(publication)
        unsure = changed.unsure if changed is not None else ()
        everything = (*there.values(), *unsure)
        seen, left_out = everything[:MAX_SEEN], max(0, len(everything) - MAX_SEEN)
    return fitted(
        CommentState(
            head=publication.head,
            run=publication.run,
            attempt=publication.attempt,
            seen=seen,
            seen_left_out=left_out,
            decisions=previous.decisions[-MAX_DECISIONS:],
            earlier=_earlier(previous),
            past=_past(previous, seen),
        )
    )


def compared_with(state: CommentState, run: tuple[int, int]) -> CommentState:
    """What a report of ``run`` (id and attempt) is compared with, from what the comment remembers now.

    It is the report before: when the comment speaks of this run already, as after a publish that is done again, that is
    what it keeps of the one before. The decisions are always those of now.
    """
    if (state.run, state.attempt) != run:
        return state
    earlier = state.earlier or Earlier()
    return CommentState(
        head=earlier.head,
        seen=earlier.seen,
        seen_left_out=earlier.seen_left_out,
        decisions=state.decisions,
        past=state.past,
    )


def _past(previous: CommentState, seen: Sequence[Seen]) -> dict[Verdict, int]:
    """The counts of the report before, and what is remembered no longer: it was in the one before that alone.

    Decisions remember theirs. A publish that is done again is compared with a state that has none before it
    (:func:`compared_with`), so that it counts nothing twice.
    """
    kept = {(row.fingerprint, row.verdict) for row in (*previous.seen, *seen)}
    kept |= {(said.fingerprint, said.verdict) for said in previous.decisions if said.verdict}
    past = Counter(previous.past)
    for row in previous.earlier.seen if previous.earlier is not None else ():
        past[row.verdict] += (row.fingerprint, row.verdict) not in kept
    return {verdict: min(count, MAX_PAST) for verdict, count in past.items() if count}


def _earlier(previous: CommentState) -> Earlier | None:
    if previous.head is None:
        return None
    return Earlier(head=previous.head, seen=previous.seen, seen_left_out=previous.seen_left_out)


def _is_proof(results: Results, op: str) -> bool:
    """Whether an op's finding that is not in these results is gone.

    It is when the run is whole: then the op was tested, or the pull request does not change it any more.
    """
    return is_whole(results) and all(row.tested for row in results.coverage if row.op == op)


def _seen(row: FindingRow) -> Seen:
    return Seen(
        fingerprint=row.fingerprint,
        op=row.op[:120],
        kind=row.kind,
        verdict=row.verdict,
        status=row.status,
    )
