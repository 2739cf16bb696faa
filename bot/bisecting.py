"""``opdiff bisect``: in which release of a framework a finding's fault came, or went.

The finding's own targets run its program once; then each release asked runs it, and stands with the accused side or with
the others, by the same comparison that made the finding. A death is the fault when it is of the finding's kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from packaging.version import Version
from pydantic import AfterValidator, Field, ValidationError
from rich.console import Console
from rich.markup import escape

from bot.atomic_file import write_atomically
from bot.bisection import Answer, Change, change_in, next_version
from bot.carry_out import builds_of, compiles_of
from bot.errors import OpDiffError
from bot.oracle.compare import Comparator, Comparison
from bot.oracle.finding import Mismatch
from bot.oracle.sides import unique_labels
from bot.programs.program import digest
from bot.programs.source import SourcedProgram
from bot.report.escape import log_line
from bot.report.files import FileError, read_bounded, safe_name
from bot.report.finding_folder import LoadedFinding, load_finding
from bot.report.untrusted_json import Row
from bot.targets.job import Job, PoolTarget
from bot.targets.outcome import RawOutcome
from bot.targets.pool import TargetFacts
from bot.targets.releases import Ask, in_range, minor_releases, named_versions, released
from bot.targets.resolve import resolve
from bot.targets.target import Target, TargetError, names_a_path, parse_target
from bot.targets.worker_process import WorkerDeath
from bot.worker.protocol import ProtocolError
from bot.workshop import Workshop

DEATHS: Final = ("crash", "hang", "memory")
MAX_FILE_BYTES: Final = 4 << 20


def _version_text(text: str) -> str:
    Version(text)
    return text


class Probe(Row):
    """What one release made of the program."""

    release: Annotated[str, Field(max_length=100), AfterValidator(_version_text)]
    answer: Answer
    seen: Annotated[str, Field(max_length=2_000)]
    """The value or what happened, or why it cannot run."""


class BisectionFile(Row):
    """The file that a bisection keeps its answers in."""

    version: Annotated[int, Field(ge=1, le=1)] = 1
    program: str
    """Digest of the finding's program."""
    kind: str
    framework: str
    probes: Annotated[tuple[Probe, ...], Field(max_length=1_000)] = ()


@dataclass(frozen=True)
class Bisection:
    """What a bisection found: the answers, oldest release first, and the change among them."""

    finding: LoadedFinding
    framework: str
    probes: tuple[Probe, ...]
    change: Change | None
    file: Path

    @property
    def lines(self) -> tuple[str, ...]:
        """For the terminal: each answer, then what follows."""
        row = self.finding.record.finding
        told = [f"{self.framework} {p.release}: {_WORDS[p.answer]}: {p.seen}" for p in self.probes]
        return (*told, f"{row.op}: {row.kind}: {self._conclusion}")

    @property
    def _conclusion(self) -> str:
        decided = [p for p in self.probes if p.answer in ("has", "has not")]
        if self.change is not None:
            change = self.change
            what = "has the fault since" if change.came else "no longer has the fault since"
            skipped = ", ".join(map(str, change.between))
            around = f" (or since one of {skipped}, which gave no answer)" if skipped else ""
            return f"{self.framework} {what} {change.after}{around}"
        if len(decided) < 2:
            return "too few releases gave an answer"
        ends = f"{decided[0].release} and {decided[-1].release}"
        return (
            f"no change: {ends} both {'have' if decided[0].answer == 'has' else 'lack'} the fault"
        )

    @property
    def answered(self) -> bool:
        """Whether at least two releases gave an answer."""
        return sum(p.answer in ("has", "has not") for p in self.probes) > 1


_WORDS: Final[dict[Answer, str]] = {
    "has": "has the fault",
    "has not": "has it not",
    "unclear": "differs from both sides",
    "cannot run": "skipped",
}


@dataclass(frozen=True)
class _Sides:
    """The finding's targets, run once: the accused one, where it can be made, and the others."""

    accused: str | None  # its label among ``labels``
    labels: tuple[str, ...]
    outcomes: tuple[RawOutcome, ...]
    facts: tuple[TargetFacts, ...]


def bisect(
    folder: Path,
    framework: str,
    versions: str,
    workshop: Workshop,
    ask: Ask,
    out: Path | None = None,
) -> Bisection:
    """Bisect a finding's folder, which may come from anywhere; answers are written to ``out`` as they come.

    An ``out`` of the same finding is gone on with: what ran is not run again. Raises FindingError, TargetError,
    OpDiffError.
    """
    loaded = load_finding(folder)
    store, say = workshop.store, workshop.progress.note
    varied = _varied(loaded, framework, workshop)
    named = named_versions(versions)
    releases = named or in_range(versions, released(framework, store.recipes, ask))
    distribution = store.recipes.named(framework)[0].distribution
    file = out or Path(
        f"opdiff-bisect-{safe_name(loaded.record.finding.fingerprint)}-{safe_name(framework)}.json"
    )
    kept = _read(file, loaded, framework)
    probes = {Version(p.release): p for p in kept.probes if p.answer != "cannot run"}
    sides = _run_sides(loaded, varied, workshop)

    def asked(version: Version) -> Probe:
        target = replace(parse_target(varied), environment=f"{distribution}=={version}")
        workshop.progress.step(f"asking {target}")
        probe = _probe(loaded, target, str(version), sides, workshop)
        say(f"{framework} {version}: {_WORDS[probe.answer]}: {log_line(probe.seen, 300)}")
        return probe

    def search(among: Sequence[Version]) -> None:
        while (version := next_version(among, _answers(probes))) is not None:
            probes[version] = asked(version)
            rows = tuple(probes[v] for v in sorted(probes))
            written = kept.model_copy(update={"probes": rows}).model_dump_json(indent=1)
            write_atomically(file, written.encode() + b"\n")

    if named is None:
        installed = {
            v for v in releases if store.find(f"{distribution}=={v}", framework) is not None
        }
        minors = minor_releases(releases, installed)
        if len(minors) > 1:
            search(minors)
            found = change_in(minors, _answers(probes))
            releases = () if found is None else _from_to(releases, found)
    search(releases)
    ordered = sorted(probes)
    answers = _answers(probes)
    return Bisection(
        loaded, framework, tuple(probes[v] for v in ordered), change_in(ordered, answers), file
    )


def _from_to(releases: Sequence[Version], change: Change) -> tuple[Version, ...]:
    return tuple(v for v in releases if change.before <= v <= change.after)


def _answers(probes: dict[Version, Probe]) -> dict[Version, Answer]:
    return {version: probe.answer for version, probe in probes.items()}


def _read(file: Path, loaded: LoadedFinding, framework: str) -> BisectionFile:
    """What an earlier bisection left in the file; an empty one where there is none. Raises OpDiffError."""
    row = loaded.record.finding
    fresh = BisectionFile(program=row.program, kind=row.kind, framework=framework)
    if not file.exists() and not file.is_symlink():
        return fresh
    try:
        kept = BisectionFile.model_validate_json(read_bounded(file, MAX_FILE_BYTES))
    except (ValidationError, FileError, RecursionError):
        raise OpDiffError(f"{file} is no file of a bisection: give another --out") from None
    if kept.model_copy(update={"probes": ()}) != fresh:
        raise OpDiffError(
            f"{file} is of another finding or framework: remove it, or give another --out"
        )
    return kept


def _varied(loaded: LoadedFinding, framework: str, workshop: Workshop) -> str:
    """The label of the target whose version is varied: the one blamed of the framework, else its first."""
    recipes = workshop.store.recipes
    if not recipes.named(framework):
        raise OpDiffError(f"--framework: no recipe for it: {recipes.near_names(framework)}")
    own = [t for t in loaded.record.targets if t.framework == recipes.named(framework)[0].framework]
    if not own:
        there = sorted({target.framework for target in loaded.record.targets})
        raise OpDiffError(
            f"--framework {framework}: the finding's targets are of {log_line(', '.join(there))}"
        )
    blamed = [target for target in own if target.label in loaded.record.finding.blamed]
    return (blamed or own)[0].label.partition("#")[0]


def _run_sides(loaded: LoadedFinding, varied: str, workshop: Workshop) -> _Sides:
    """Run the finding's own targets: those that are releases. Raises OpDiffError when they differ no more."""
    accused_label = next(
        t.label for t in loaded.record.targets if t.label.partition("#")[0] == varied
    )
    with_accused = next(
        (side for side in loaded.record.finding.sides if accused_label in side), (accused_label,)
    )
    others = [
        t
        for t in loaded.record.targets
        if t.label not in with_accused and any(t.label in s for s in loaded.record.finding.sides)
    ]
    targets: list[PoolTarget] = []
    accused = _release(accused_label, workshop)
    if accused is not None:
        targets.append(accused)
    targets += [made for t in others if (made := _release(t.label, workshop)) is not None]
    if len(targets) == (accused is not None):
        raise OpDiffError(
            f"{loaded.folder}: the side that {log_line(varied)} differs from is of no release: nothing to compare with"
        )
    with workshop.pool(targets) as pool:
        facts = tuple(pool.facts())
        (result,) = pool.run([Job(0, loaded.blob, loaded.program.op)])
    labels = tuple(f"side {n}: {t.label}" for n, t in enumerate(targets, start=1))
    sides = _Sides(labels[0] if accused is not None else None, labels, result.outcomes, facts)
    if accused is not None and not _of_kind(_compare(loaded, sides, None), loaded):
        raise OpDiffError(
            f"{loaded.folder}: its own targets differ no more on this machine: see opdiff replay"
        )
    return sides


def _release(label: str, workshop: Workshop) -> PoolTarget | None:
    """The target of a label, made when it names a release; a folder from elsewhere chooses no path."""
    spec = label.partition("#")[0]
    if names_a_path(spec) or "@" in spec:
        return None
    return resolve(spec, workshop.store)


def _of_kind(comparison: Comparison, loaded: LoadedFinding) -> list[Mismatch]:
    """The mismatches of the finding's kind, those at its own place first."""
    row = loaded.record.finding
    place = {(m.role, m.name, m.path) for m in row.mismatches if m.kind == row.kind}
    found = [m for m in comparison.mismatches if m.kind == row.kind]
    return sorted(found, key=lambda m: (m.role, m.name, m.path) not in place)


def _compare(
    loaded: LoadedFinding, sides: _Sides, probe: tuple[str, RawOutcome, TargetFacts] | None
) -> Comparison:
    """Compare the sides, and a probe in front of them."""
    labels, outcomes, facts = list(sides.labels), list(sides.outcomes), list(sides.facts)
    if probe is not None:
        labels.insert(0, probe[0])
        outcomes.insert(0, probe[1])
        facts.insert(0, probe[2])
    comparator = Comparator(
        unique_labels(labels),
        [fact.target.environment.framework for fact in facts],
        builds_of(facts),
        compiles=compiles_of(facts),
    )
    sourced = SourcedProgram(loaded.blob, digest(loaded.blob), loaded.program.op)
    return comparator.compare(sourced, outcomes)


def _probe(
    loaded: LoadedFinding, target: Target, release: str, sides: _Sides, workshop: Workshop
) -> Probe:
    """Run the program on one release and say where it stands."""
    try:
        made = resolve(target, workshop.store)
        with workshop.pool([made]) as pool:
            (facts,) = pool.facts()
            (result,) = pool.run([Job(0, loaded.blob, loaded.program.op)])
    except (TargetError, WorkerDeath, ProtocolError) as error:
        return _row(release, "cannot run", str(error))
    label = f"probe: {target}"
    comparison = _compare(loaded, sides, (label, result.outcomes[0], facts))
    return _row(release, *_stand(loaded, label, sides.accused, comparison))


def _row(release: str, answer: Answer, seen: str) -> Probe:
    return Probe(release=release, answer=answer, seen=log_line(" ".join(seen.split()), 1_000))


def _stand(
    loaded: LoadedFinding, label: str, accused: str | None, comparison: Comparison
) -> tuple[Answer, str]:
    """With whom the probe stands, and what it had."""
    kind, status = loaded.record.finding.kind, comparison.statuses[0]
    said = f"{status.status}{': ' if status.reason else ''}{status.reason}"
    if status.status in ("unsupported", "refused"):
        return "cannot run", said
    if kind in DEATHS:
        if status.status == kind:
            return "has", _seen(comparison.mismatches, label) or said
        return ("unclear" if status.status in DEATHS else "has not"), said
    if status.status in DEATHS:
        return "unclear", _seen(comparison.mismatches, label) or said
    found = _of_kind(comparison, loaded)
    if accused is None:
        against = [m for m in found if _side(m, label)]
        return ("has", _seen(against, label)) if against else ("has not", "agrees with the others")
    mismatch = next((m for m in found if _side(m, label) and _side(m, accused)), None)
    if mismatch is None:
        return "unclear", said
    own = _side(mismatch, label)
    seen = _seen([mismatch], label) or said
    if accused in own:
        return "has", seen
    return ("has not" if len(own) > 1 else "unclear"), seen


def _side(mismatch: Mismatch, label: str) -> tuple[str, ...]:
    return next((side for side in mismatch.sides if label in side), ())


def _seen(mismatches: Sequence[Mismatch], label: str) -> str:
    """What the target had at the first of these places."""
    for mismatch in mismatches:
        for seen in mismatch.observations:
            if seen.target == label:
                if seen.happened:
                    return seen.happened
                shape = list(seen.shape or ())
                return f"{mismatch.label}: {seen.dtype} {shape} {seen.value or ''}".strip()
    return ""


def bisection_json(found: Bisection) -> dict[str, Any]:
    """``{"finding", "framework", "probes", "before", "after", "came", "between"}``."""
    change = found.change
    return {
        "finding": found.finding.record.finding.fingerprint,
        "framework": found.framework,
        "probes": [p.model_dump(mode="json") for p in found.probes],
        "before": str(change.before) if change else None,
        "after": str(change.after) if change else None,
        "came": change.came if change else None,
        "between": [str(v) for v in change.between] if change else [],
    }


def print_bisection(console: Console, found: Bisection) -> None:
    """Each answer and what follows, one line each."""
    for line in found.lines:
        console.print(escape(log_line(line)))
    console.print(escape(log_line(f"answers: {found.file}")))
