"""How many planted faults are reported: PyTorch against itself, with faults in one side's worker.

    .venv/bin/python benchmarks/planted.py [--faults 300] [--seed 0] [--out DIR] [--mode compile=aot_eager] [--per-op N]

In the configuration of ``opdiff run --all --target torch==2.13.0:cpu --target torch==2.13.0:cpu``, which must itself
find nothing. Each fault is one op x kind x position, at most one per op, chosen by the seed: the op among all that have
a program of their own, the kind among those that the op's program can show (a gradient fault needs a gradient, a
swapped tuple a tuple), the element that is hit, and whether it happens always or only for inputs of one shape.
``planted_worker`` plants them. A fault counts as caught when a finding of its op is reported, for without faults there
is none (though now and then a program of several calls shows another op's fault); beside it stands how often the kind
that was reported is the kind that was planted.

``--when`` plants faults that show themselves only on tensors without elements, of 17 elements, in channels-last, or on
every 50th call (:data:`WHEN`), which mutants have and samples mostly lack; ``--mutations`` bounds the mutants of each op.

``--mode`` compares eager with compiled: the faults are then the compiler's. ``--per-op`` bounds the programs of each op and
kind, among which the faults are then planted, and leaves out reference inputs and ops without a fault.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bot.carry_out import capped, requests_of
from bot.oracle.conventions import load_conventions
from bot.plan import DEFAULT_SOURCES, SUITE_SOURCES, Plan, PlannedTarget
from bot.programs.op_groups import group_of
from bot.programs.program import Program, decode
from bot.programs.source import SourceCounts, SourcedProgram
from bot.progress import Progress
from bot.report.results import FindingRow, read_results
from bot.run import run
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import Job, Limits
from bot.targets.outcome import Outcome
from bot.targets.resolve import resolve
from bot.workshop import Workshop

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0:cpu"
KINDS = (
    "value",
    "nan",
    "shape",
    "dtype",
    "gradient",
    "swap",
    "side_effect",
    "accepts",
    "refuses",
    "crash",
    "hang",
    "no_effect",
    "zero_sign",
    "nan_for_inf",
)
LIMITS = Limits(compile_seconds=30)  # a planted hang costs that much more
RARE = {"crash": 12, "hang": 2}  # each costs start-ups or time limits, so at most so many
SHOWN_BY = {  # planted kind -> kinds of findings that may show it
    "value": {"value", "gradient", "nan"},
    "nan": {"nan", "value"},
    "shape": {"shape"},
    "dtype": {"dtype"},
    "gradient": {"gradient"},
    "swap": {"value", "shape", "dtype", "nan"},
    "side_effect": {"side-effect", "value"},
    "accepts": {"accepts"},
    "refuses": {"refuses", "accepts"},
    "crash": {"crash"},
    "hang": {"hang"},
    "no_effect": {"value", "side-effect"},
    "zero_sign": {"value"},
    "nan_for_inf": {"nan"},
}
WHEN: dict[
    str, tuple[str, ...]
] = {  # what else a planted fault may need -> the kinds of fault that do
    "empty": ("crash", "refuses"),
    "17": ("value", "nan", "gradient"),
    "channels_last": ("value", "nan", "gradient"),
    "50th": ("value", "nan", "shape", "dtype"),
}


@dataclass(frozen=True)
class Candidate:
    """A program in which a fault may be planted, and the call that gets it."""

    program: SourcedProgram
    fn: str
    first_shape: tuple[int, ...] | None
    error: bool
    uninitialised: bool


def candidate_of(program: SourcedProgram) -> Candidate | None:
    """The call of a program that belongs to its op; None for modules, which are made by a class."""
    parsed, _ = decode(program.blob)
    if parsed.state or any(call.fn.startswith("nn.Module.") for call in parsed.calls):
        return None
    for call in parsed.calls:
        if group_of(call.fn) == program.op:
            return Candidate(
                program,
                call.fn,
                _first_shape(call, parsed),
                parsed.origin.kind == "error",
                parsed.origin.uninitialised,
            )
    return None


def _first_shape(call: Any, parsed: Program) -> tuple[int, ...] | None:
    shapes = {tensor.name: tuple(tensor.shape) for tensor in parsed.tensors}
    for value in [*call.args, *call.kwargs.values()]:
        if isinstance(value, dict) and value.get("ref") in shapes and not value.get("path"):
            return shapes[value["ref"]]
    return None


def choose_programs(
    plan: Plan, workshop: Workshop, generator: random.Random
) -> dict[str, list[Candidate]]:
    """For every op one of its samples and, where there are, one of its error inputs; by reservoir."""
    seen: Counter[tuple[str, bool]] = Counter()
    chosen: dict[tuple[str, bool], Candidate] = {}
    with workshop.source() as source:
        chosen_from = plan.model_copy(update={"kinds": ("sample", "error")})
        asked = requests_of(chosen_from, source.index())
        for program in capped(source.programs(asked, SourceCounts()), plan.per_op, Counter()):
            candidate = candidate_of(program)
            if candidate is None:
                continue
            key = (program.op, candidate.error)
            seen[key] += 1
            if generator.randrange(seen[key]) == 0:
                chosen[key] = candidate
    ops: dict[str, list[Candidate]] = {}
    for (op, _), candidate in sorted(chosen.items()):
        ops.setdefault(op, []).append(candidate)
    return ops


def kinds_shown(candidate: Candidate, outcome: Outcome) -> set[str]:
    """The kinds of fault that the program can show, by what it gives without any."""
    if outcome.status == "exception":
        return {"accepts"} if candidate.error else set()
    outputs = [tensor for tensor in outcome.tensors if tensor.role == "output"]
    if outcome.status != "ok" or not outputs:
        return set()
    first = outputs[0]
    kinds = {"shape", "refuses", "crash", "hang"}
    if first.dtype in ("float32", "float64", "int64", "bool", "complex64"):
        kinds.add("dtype")
    if candidate.uninitialised:
        return kinds
    if first.array.size:
        kinds.add("value")
        if first.dtype.startswith("float"):
            kinds.add("nan")
    gradients = [tensor for tensor in outcome.tensors if tensor.role == "gradient"]
    if any(bool((tensor.array != 0).any()) for tensor in gradients):
        kinds.add("gradient")
    if _swappable(outputs):
        kinds.add("swap")
    if first.dtype.startswith("float") and bool(np.isinf(first.array).any()):
        kinds.add("nan_for_inf")
    if candidate.fn in load_conventions().zero_sign_ops and bool((first.array == 0).any()):
        kinds.add("zero_sign")
    if candidate.fn.endswith("_") and not candidate.fn.endswith("__"):
        kinds.add("no_effect")
    parsed, _ = decode(candidate.program.blob)
    if any(
        t.dtype.startswith("float") and 0 not in t.shape and not t.offset for t in parsed.inputs()
    ):
        kinds.add("side_effect")
    return kinds


def _swappable(outputs: list[Any]) -> bool:
    if len(outputs) < 2 or outputs[0].path == ():
        return False
    left, right = outputs[0], outputs[1]
    return (
        left.dtype != right.dtype
        or left.array.shape != right.array.shape
        or bool((left.array != right.array).any())
    )


def plant(
    ops: dict[str, list[Candidate]],
    outcomes: dict[str, Outcome],
    count: int,
    generator: random.Random,
    when: str | None = None,
) -> list[dict[str, Any]]:
    """``count`` faults on different ops, kinds in turn as far as the ops can show them.

    With ``when`` all faults need that, of kinds that :data:`WHEN` gives.
    """
    faults: list[dict[str, Any]] = []
    used: Counter[str] = Counter()
    names = sorted(ops)
    generator.shuffle(names)
    for op in names:
        possible = [
            (kind, candidate)
            for candidate in ops[op]
            for kind in sorted(kinds_shown(candidate, outcomes[candidate.program.digest]))
            if used[kind] < RARE.get(kind, count) and (when is None or kind in WHEN[when])
        ]
        if not possible:
            continue
        fewest = min(used[kind] for kind, _ in possible)
        kind, candidate = generator.choice([p for p in possible if used[p[0]] == fewest])
        used[kind] += 1
        narrow = when is None and (
            kind in RARE or (candidate.first_shape is not None and generator.random() < 0.5)
        )
        faults.append(
            {
                "op": op,
                "fn": candidate.fn,
                "kind": kind,
                "when": when,
                "shape": list(candidate.first_shape)
                if narrow and candidate.first_shape is not None
                else None,
                "position": generator.random(),
                "program": candidate.program.digest,
            }
        )
        if len(faults) == count:
            break
    return faults


def run_clean(ops: dict[str, list[Candidate]], workshop: Workshop) -> dict[str, Outcome]:
    """What the chosen programs give without faults."""
    chosen = [candidate for candidates in ops.values() for candidate in candidates]
    target = resolve(TORCH, workshop.store)
    with workshop.pool([target]) as pool:
        return {
            chosen[result.job.id].program.digest: result.outcomes[0].decode()
            for result in pool.run(
                Job(i, c.program.blob, c.program.op) for i, c in enumerate(chosen)
            )
        }


def planted_directory(folder: Path, faults: list[dict[str, Any]]) -> Path:
    """A worker's folder with the faults."""
    directory = folder / "worker"
    shutil.copytree(HERE / "planted_worker", directory)
    real = HERE.parent / "bot" / "worker"
    (directory / "faults.json").write_text(json.dumps({"worker": str(real), "faults": faults}))
    return directory


def show(faults: list[dict[str, Any]], findings: tuple[FindingRow, ...], console: Console) -> None:
    """The table by kind, then every fault that was missed."""
    reported: dict[str, list[FindingRow]] = {}
    for finding in findings:
        reported.setdefault(finding.op, []).append(finding)
    table = Table("kind", "planted", "caught", "as that kind", "blamed right", "blamed wrong")
    missed: list[dict[str, Any]] = []
    blames: Counter[str] = Counter()
    total = exact = 0
    for kind in KINDS:
        of_kind = [fault for fault in faults if fault["kind"] == kind]
        caught = [fault for fault in of_kind if fault["op"] in reported]
        right = [f for f in caught if any(r.kind in shown_by(f) for r in reported[f["op"]])]
        missed += [fault for fault in of_kind if fault not in caught]
        verdicts = [_blames(reported[fault["op"]]) for fault in caught]
        blames.update(verdicts)
        total += len(caught)
        exact += len(right)
        numbers = (len(of_kind), len(caught), len(right), *map(verdicts.count, ("right", "wrong")))
        table.add_row(kind, *map(str, numbers))
    share = f"{total} ({total / max(len(faults), 1):.1%})"
    blamed = str(blames["right"]), str(blames["wrong"])
    table.add_row("all", str(len(faults)), share, str(exact), *blamed)
    console.print(table)
    ops = {fault["op"] for fault in faults}
    beside = [finding for finding in findings if finding.op not in ops]
    console.print(
        f"{len(findings)} findings, {len(beside)} of them on ops without a fault of their own"
    )
    for fault in missed:
        console.print(f"missed: {json.dumps(fault)}")
    for finding in beside[:20]:
        console.print(f"beside: {finding.op} {finding.kind} {finding.count}")


def shown_by(fault: dict[str, Any]) -> set[str]:
    """The kinds of findings that show a fault as what it is: one that comes and goes is nondeterminism."""
    return {"nondeterminism"} if fault["when"] == "50th" else SHOWN_BY[fault["kind"]]


def _blames(findings: list[FindingRow]) -> str:
    """Whom the findings of an op with a fault blame: the side that has it, another, or nobody."""
    blamed = {label for finding in findings for label in finding.blamed}
    if not blamed:
        return "nobody"
    return "right" if all("planted" in label for label in blamed) else "wrong"


def main() -> None:
    """Plant, run, count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--mode", default="")
    parser.add_argument("--per-op", type=int, default=None)
    parser.add_argument("--when", choices=list(WHEN), default=None)
    parser.add_argument("--mutations", type=int, default=None)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    progress = Progress(Console(stderr=True))
    with (
        tempfile.TemporaryDirectory() as scratch,
        EnvironmentStore(progress=progress.note) as store,
    ):
        out = options.out or Path(scratch) / "out"
        plan = Plan(
            command="run",
            arguments=tuple(sys.argv),
            targets=(
                PlannedTarget(spec=TORCH),
                PlannedTarget(spec=f"{TORCH}:{options.mode + ',' if options.mode else ''}planted"),
            ),
            per_op=options.per_op,
            mutations=options.mutations,
            sources=DEFAULT_SOURCES if options.mutations else SUITE_SOURCES,
        )
        workshop = Workshop(store, progress, limits=LIMITS)
        progress.step("choosing programs")
        ops = choose_programs(plan, workshop, generator)
        progress.step(f"running one program each of {len(ops)} ops without faults")
        faults = plant(ops, run_clean(ops, workshop), options.faults, generator, options.when)
        progress.step(f"{len(faults)} faults are planted")
        if options.per_op is not None:
            faulty = tuple(fault["op"] for fault in faults)
            plan = plan.model_copy(update={"ops": faulty, "kinds": ("sample", "error")})
        directory = planted_directory(Path(scratch), faults)
        run(plan, out, Workshop(store, progress, worker_directory=directory, limits=LIMITS))
        show(faults, read_results(out / "results.json").findings, Console())


if __name__ == "__main__":
    main()
