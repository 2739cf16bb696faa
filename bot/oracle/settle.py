"""Settling: from thousands of mismatching programs to findings, one per cause, each with a verdict.

1. **refine**: mismatches of narrow floating values go before the float64 witness; rounding is dismissed and counted
2. **group**: what stands is grouped by cause (``cause.py``); the smallest program represents it
3. **shrink**: a smaller program that shows the same is looked for (``shrink/``), and represents the cause from then on
4. **confirm**: the representative runs again, on the same workers and on fresh ones (``repeat.py``)
5. **slopes**: gradients that differ in float64 too are held against finite differences (``finite_differences.py``)
6. **reference**: what NumPy makes of the programs of values (``references.py``)
7. **paths**: what the frameworks' other code makes of those that nothing has settled (``paths.py``)
8. **decide**: all evidence goes through one table (``verdict.py``); then the status against the baseline and the fingerprint

The same cases in any order give the same findings in the same order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bot.oracle import families, finite_differences, overflow, paths, reference_alone, references
from bot.oracle import verdict as decisions
from bot.oracle.argument_class import facts_of
from bot.oracle.cause import Cause, FailingProgram, by_sides, group, joined, primary
from bot.oracle.compare import Comparator
from bot.oracle.conventions import load_conventions
from bot.oracle.exact import PYTORCH
from bot.oracle.finding import Evidence, Finding, Kind, Mismatch
from bot.oracle.fingerprint import fingerprint, numbered
from bot.oracle.finite_differences import SlopeJudgement
from bot.oracle.float64 import Float64Judgement
from bot.oracle.observe import accepting_targets, dead_targets, refusing_targets
from bot.oracle.paths import PathsJudgement
from bot.oracle.references import ReferenceJudgement
from bot.oracle.refine import Refined, ToFloat64, as_evidence, as_float64, refine
from bot.oracle.repeat import DEATHS, Confirmation, confirm
from bot.oracle.rerun import Case, Rerun, Runner
from bot.oracle.roles import Player, Role, players
from bot.oracle.shrink.causes import with_small_programs
from bot.oracle.shrink.holds import Shown
from bot.oracle.shrink.shrink import shrink
from bot.oracle.verdict import Facts, Refusal, Slopes, Strength
from bot.oracle.witness_targets import NoWitnessTargets, WitnessTargets

WIDEST: Final = ("float64", "complex128")
MAX_PROGRAMS: Final = 100  # digests kept with a finding
REFERENCE_SECONDS: Final = 10.0  # for what NumPy is asked at once
PATHS_SECONDS: Final = 10.0  # within which paths are started


@dataclass(frozen=True)
class Settlement:
    """The findings, and what was dismissed on the way to them."""

    findings: tuple[Finding, ...]
    within_float64_witness: int  # mismatches that float64 showed to be rounding
    rounding_only: tuple[str, ...]  # digests of programs in which nothing else was found
    of_references: int = 0  # causes that speak against a reference alone
    small: tuple[Shown, ...] = ()  # programs made by shrinking that represent findings


@dataclass(frozen=True)
class Witnesses:
    """What came of a cause: its repetition, and what each witness says."""

    confirmation: Confirmation
    judgement: Float64Judgement | None
    slopes: SlopeJudgement | None
    reference: ReferenceJudgement | None
    paths: PathsJudgement | None = None
    overflow: bool = False  # whether an overflow on the way explains it


Progress = Callable[[str], None]


def settle(
    cases: Iterable[Case],
    comparator: Comparator,
    roles: Sequence[Role],
    rerun: Rerun,
    to_float64: ToFloat64 = as_float64,
    progress: Progress = lambda step: None,
    clock: Callable[[], float] = time.monotonic,
    shrink_seconds: float = 0.0,
    others: WitnessTargets | None = None,
) -> Settlement:
    """Settle a run's mismatching programs.

    ``roles`` are in the order of the comparator's targets, ``rerun`` runs on those same targets (``Pool.run``).
    ``shrink_seconds`` bounds the shrinking of all causes together, on this clock. ``others``
    are asked for :data:`REFERENCE_SECONDS` and :data:`PATHS_SECONDS`.
    Raises ValueError for two candidates or two baselines.
    """
    cast = players(comparator.parties, roles)
    ordered = sorted({case.digest: case for case in cases}.values(), key=lambda case: case.digest)
    runner = Runner(rerun, comparator.parties)
    progress(f"{len(ordered)} programs mismatch: asking the float64 witness")
    refined = refine(ordered, comparator, runner, to_float64)
    by_role = {player.role: label for label, player in cast.items()}
    causes = joined(
        group(_failing(refined)), by_role.get("candidate", ""), by_role.get("baseline", "")
    )
    by_digest = {case.digest: case for case in ordered}
    progress(f"{len(causes)} causes: making their programs small")
    end = clock() + shrink_seconds
    small = shrink(causes, by_digest, comparator, runner, lambda: clock() < end)
    causes, refined_small = with_small_programs(causes, small, comparator, runner, to_float64)
    by_digest |= {item.case.digest: item.case for item in refined_small}
    progress(f"{len(causes)} causes: running each again")
    witness = {item.case.digest: item for item in (*refined, *refined_small)}
    others = others or NoWitnessTargets()

    def weighed(causes: Sequence[Cause]) -> list[Witnesses]:
        confirmations = confirm(causes, by_digest, comparator, runner)
        slopes = finite_differences.ask(confirmations, by_digest, runner, to_float64)
        said = references.ask(
            confirmations,
            by_digest,
            comparator,
            runner,
            to_float64,
            others,
            _within(REFERENCE_SECONDS, clock),
        )
        return [
            Witnesses(
                confirmation,
                _judgement(confirmation, witness),
                slopes.get(number),
                said.get(number),
                overflow=overflow.explains(*_represented(confirmation, by_digest)),
            )
            for number, confirmation in enumerate(confirmations)
        ]

    weights = weighed(causes)
    for number, clearer in _clearer(causes, weights, weighed, cast):
        weights[number] = clearer
    unsettled = [number for number, weight in enumerate(weights) if _is_doubtful(weight, cast)]
    confirmations = [weight.confirmation for weight in weights]
    for number, said in paths.ask(
        confirmations,
        unsettled,
        by_digest,
        comparator,
        runner,
        others,
        _within(PATHS_SECONDS, clock),
    ).items():
        weights[number] = replace(weights[number], paths=said)
    findings, of_references = reference_alone.split(
        (_finding(weight, cast) for weight in weights), cast
    )
    return Settlement(
        findings=tuple(families.joined(_distinct(findings), cast)),
        of_references=len(of_references),
        within_float64_witness=sum(item.dismissed for item in refined),
        rounding_only=tuple(item.case.digest for item in refined if not item.standing),
        small=_representing(small.values(), findings),
    )


def _clearer(
    causes: Sequence[Cause],
    weights: Sequence[Witnesses],
    weighed: Callable[[Sequence[Cause]], list[Witnesses]],
    cast: Mapping[str, Player],
) -> Iterator[tuple[int, Witnesses]]:
    """Findings whose small program proves little, where one that was measured proves more: that represents them."""
    doubtful = {
        number: replace(cause, programs=cause.measured, shrunk=False)
        for number, (cause, weight) in enumerate(zip(causes, weights, strict=True))
        if cause.shrunk and _is_doubtful(weight, cast)
    }
    for number, weight in zip(doubtful, weighed(list(doubtful.values())), strict=True):
        if not _is_doubtful(weight, cast):
            yield number, weight


def _is_doubtful(weight: Witnesses, cast: Mapping[str, Player]) -> bool:
    return decisions.decide(_facts(weight, cast)).confidence == "weak"


def _representing(small: Iterable[Shown], findings: Sequence[Finding]) -> tuple[Shown, ...]:
    chosen = {finding.program for finding in findings}
    return tuple(shown for shown in small if shown.failing.digest in chosen)


def _failing(refined: Iterable[Refined]) -> Iterable[FailingProgram]:
    """Every program once per partition of sides that stands."""
    for item in refined:
        if item.standing:
            facts = facts_of(item.case.load(), item.case.digest)
            for mismatches in by_sides(item.standing):
                yield FailingProgram(item.case.op, item.case.digest, facts, mismatches)


def _within(seconds: float, clock: Callable[[], float]) -> Callable[[], bool]:
    until = clock() + seconds
    return lambda: clock() < until


def _represented(confirmation: Confirmation, cases: Mapping[str, Case]) -> tuple[Mismatch, bytes]:
    representative = confirmation.representative
    return primary(representative.mismatches), cases[representative.digest].load()


def _judgement(
    confirmation: Confirmation, witness: Mapping[str, Refined]
) -> Float64Judgement | None:
    """What the float64 witness said of a cause: of its representative.

    Where that could not be asked, being in float64 itself, it is the word on the smallest program that names a side, if
    all such name the same. What a program was made smaller into is as plain as it gets: others of its cause may have a
    second fault that it lacks.
    """
    cause, representative = confirmation.cause, confirmation.representative
    own = _of_primary(representative, witness)
    if own is not None or (cause.shrunk and representative == cause.programs[0]):
        return own
    if not all(o.dtype in WIDEST for o in primary(representative.mismatches).observations):
        return None
    others = [_of_primary(program, witness) for program in cause.programs]
    naming = [judgement for judgement in others if judgement is not None and judgement.against]
    if naming and len({judgement.against for judgement in naming}) == 1:
        return replace(naming[0], line=f"on another program of this cause: {naming[0].line}")
    return None


def _of_primary(program: FailingProgram, witness: Mapping[str, Refined]) -> Float64Judgement | None:
    return witness[program.digest].judgements.get(primary(program.mismatches))


def _finding(witnesses: Witnesses, cast: Mapping[str, Player]) -> Finding:
    confirmation = witnesses.confirmation
    cause, representative = confirmation.cause, confirmation.representative
    first = primary(representative.mismatches)
    blame = _blame(witnesses, first, cast)
    facts = _facts(witnesses, cast)
    decision = decisions.decide(facts)
    blamed = blame[decision.blame]
    steady = facts.repeat == "stable" or facts.death
    kind: Kind = cause.key.kind if steady else "nondeterminism"
    return Finding(
        fingerprint=fingerprint(cause.key, cast, representative.facts.argument_class),
        op=cause.key.op,
        kind=kind,
        verdict=decision.verdict or decisions.verdict_on(blamed, cast),
        blamed=blamed,
        confidence=decision.confidence,
        status=decisions.status_of(first.sides, blamed, cast),
        sides=first.sides,
        program=representative.digest,
        mismatches=representative.mismatches,
        evidence=(
            *_evidence(witnesses, first, facts, cast),
            Evidence("verdict", decision.why, blamed),
        ),
        programs=tuple(program.digest for program in cause.measured[:MAX_PROGRAMS]),
        count=len(cause.measured),
        argument_class=representative.facts.argument_class,
        known_to_suite=representative.facts.known_to_suite,
    )


def _blame(
    witnesses: Witnesses, first: Mismatch, cast: Mapping[str, Player]
) -> dict[decisions.Blame, tuple[str, ...]]:
    """Whom each kind of evidence blames."""
    confirmation, judgement = witnesses.confirmation, witnesses.judgement
    candidate, baseline = decisions.find(cast, "candidate"), decisions.find(cast, "baseline")

    def side(player: Player | None) -> tuple[str, ...]:
        return tuple(decisions.side_of(player.label, first.sides) or ()) if player else ()

    return {
        "nobody": (),
        "unstable": confirmation.unstable,
        "dead": dead_targets(first) if confirmation.cause.key.kind in DEATHS else (),
        "float64": judgement.against if judgement else (),
        "slopes": witnesses.slopes.against if witnesses.slopes else (),
        "reference": witnesses.reference.against if witnesses.reference else (),
        "paths": witnesses.paths.against if witnesses.paths else (),
        "candidate": side(candidate),
        "baseline": side(baseline),
        "minority": decisions.minority(first.sides, cast),
        "accepting": accepting_targets(first),
        "refusing": refusing_targets(first),
    }


def _facts(witnesses: Witnesses, cast: Mapping[str, Player]) -> Facts:
    confirmation, judgement = witnesses.confirmation, witnesses.judgement
    first = primary(confirmation.representative.mismatches)
    sides = first.sides
    strength: Strength = "none"
    if judgement is not None and judgement.against:
        strength = "strong" if judgement.independent else "weak"
    return Facts(
        repeat=confirmation.repeat,
        death=confirmation.cause.key.kind in DEATHS,
        position=decisions.position(sides, cast),
        float64=strength,
        float64_against=decisions.against(judgement.against if judgement else (), cast),
        slopes=_strength_of(witnesses.slopes),
        reference=witnesses.reference.strength if witnesses.reference else "none",
        paths=_strength_of_paths(witnesses.paths, judgement),
        overflow=witnesses.overflow,
        vote=bool(decisions.minority(sides, cast)),
        # Error inputs are of PyTorch's suite: they speak of its interface, so where a torch takes part.
        documented_error=bool(accepting_targets(first))
        and any(cast[label].framework == PYTORCH for side in sides for label in side),
        refusal=_refusal(first, cast),
    )


def _refusal(first: Mismatch, cast: Mapping[str, Player]) -> Refusal:
    """Whether who refuses is bound by the interface of one that takes the input, a framework of another make."""
    refusing = refusing_targets(first)
    taking = [label for side in first.sides for label in side if label not in refusing]
    if not refusing or not taking:
        return "none"
    contract = load_conventions().contract
    bound = any(
        contract(cast[one].framework) == contract(cast[other].framework)
        and cast[one].framework != cast[other].framework
        for one in refusing
        for other in taking
    )
    return "bound" if bound else "free"


def _strength_of(said: SlopeJudgement | None) -> Slopes:
    if said is None or said.says == "abstains":
        return "none"
    if said.says != "wrong":
        return said.says
    return "strong" if said.independent else "weak"


def _strength_of_paths(said: PathsJudgement | None, judgement: Float64Judgement | None) -> Strength:
    """Where all sides are far from the float64 runs, two paths may differ for no other reason than that."""
    if said is None:
        return "none"
    return "weak" if judgement is not None and judgement.says == "far" else said.strength


def _evidence(
    witnesses: Witnesses, first: Mismatch, facts: Facts, cast: Mapping[str, Player]
) -> Iterable[Evidence]:
    """What each witness said, the cheap ones first."""
    confirmation, judgement = witnesses.confirmation, witnesses.judgement
    dead = dead_targets(first)
    for observation in first.observations:
        if observation.target in dead:
            yield Evidence(
                "crash", f"{observation.target} {observation.happened}", (observation.target,)
            )
    if confirmation.evidence is not None:
        yield confirmation.evidence
    candidate, baseline = decisions.find(cast, "candidate"), decisions.find(cast, "baseline")
    if candidate is not None and baseline is not None and facts.position != "peers":
        same = facts.position == "together"
        yield Evidence(
            "baseline",
            f"candidate and baseline {'agree' if same else 'differ'}",
            () if same else (candidate.label,),
        )
    if judgement is not None:
        yield as_evidence(judgement)
    if witnesses.slopes is not None:
        yield witnesses.slopes.as_evidence()
    if witnesses.reference is not None:
        yield witnesses.reference.as_evidence()
    if witnesses.paths is not None:
        yield witnesses.paths.as_evidence()
    outvoted = decisions.minority(first.sides, cast)
    if outvoted:
        yield Evidence(
            "vote", "independent frameworks agree against " + ", ".join(outvoted), outvoted
        )


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Findings with fingerprints of their own, ordered by op, kind and fingerprint.

    Two versions of one framework are the same without their versions, so causes that differ only in which of them is
    odd meet in one fingerprint; the later ones, in the causes' order, are told apart by their number.
    """
    seen: Counter[str] = Counter()
    distinct: list[Finding] = []
    for finding in findings:
        seen[finding.fingerprint] += 1
        number = seen[finding.fingerprint]
        if number > 1:
            finding = replace(finding, fingerprint=numbered(finding.fingerprint, number))
        distinct.append(finding)
    return sorted(distinct, key=lambda finding: (finding.op, finding.kind, finding.fingerprint))
