"""Cases per CPU-second, ours with isolation on against bare in-process loops, in one run.

    .venv/bin/python benchmarks/throughput.py [--all-programs N] [--repeats N]

A case is one program run forward and backward on two frameworks. The bare loop (bare_loop.py) runs the same programs
in each framework's own interpreter with everything prepared beforehand, then compares with ``numpy.allclose``. It does
so once with the frameworks as they come, and once with OneFlow as our workers have it, on the calling thread. Ours is
the pool (sandboxed as for a pull request's code), the comparison and the journal. All are measured in CPU-seconds of
all their processes together, after start-up, the best of a few rounds; what is quoted is the ratio.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from rich.console import Console
from rich.table import Table

from bot.carry_out import requests_of
from bot.measure import Measured, Measurement
from bot.oracle.compare import Comparator
from bot.plan import Plan, PlannedTarget
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.programs.source import SourceCounts, SourcedProgram
from bot.progress import Progress
from bot.run_directory import RunDirectory
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import Job, PoolTarget
from bot.targets.pool import Pool
from bot.targets.resolve import resolve
from bot.workshop import Workshop

HERE = Path(__file__).resolve().parent
OWN_SETTINGS = {"ONEFLOW_VM_MULTI_THREAD": "1", "ONEFLOW_VM_COMPUTE_ON_WORKER_THREAD": "1"}
"""What OneFlow does when nobody says otherwise."""

ROUNDS = 3
TARGETS = ("oneflow==0.9.0:cpu", "torch==2.13.0:cpu")


def simple(
    op: str,
    count: int,
    shapes: list[tuple[int, ...]],
    seed: int,
    *,
    output: tuple[int, ...],
    **kwargs: Any,
) -> list[SourcedProgram]:
    """``count`` programs of one call over float32 tensors of the given shapes, all of which require gradients.

    They differ in their data. Their seed for random ops is the same, as it is for all programs that a run traces.
    """
    generator = np.random.default_rng(seed)
    programs: list[SourcedProgram] = []
    for _ in range(count):
        builder = ProgramBuilder(op)
        tensors = [
            builder.tensor(
                f"x{i}", generator.standard_normal(shape, np.float32), requires_grad=True
            )
            for i, shape in enumerate(shapes)
        ]
        result = builder.call(op, *tensors, **kwargs)
        builder.output(result)
        builder.backward(result, generator.standard_normal(output, np.float32))
        blob = builder.blob()
        programs.append(SourcedProgram(blob, digest(blob), op))
    return programs


def workloads() -> dict[str, list[SourcedProgram]]:
    """The named workloads, each a list of distinct programs."""
    elementwise = [
        program
        for op in ("exp", "tanh", "sigmoid", "nn.functional.softplus")
        for size in (1, 7, 7**2, 7**3, 7**4)
        for program in simple(op, 20, [(size,)], size, output=(size,))
    ]
    return {
        "elementwise, up to 7^4": elementwise,
        "conv2d 8x16x32x32": simple(
            "nn.functional.conv2d",
            12,
            [(8, 16, 32, 32), (16, 16, 3, 3)],
            1,
            padding=1,
            output=(8, 16, 32, 32),
        ),
        "matmul 64x64": simple("matmul", 300, [(64, 64), (64, 64)], 2, output=(64, 64)),
        "sum 32x64": simple("sum", 300, [(32, 64)], 3, output=()),
    }


def sample_of_all(workshop: Workshop, count: int, seed: int) -> list[SourcedProgram]:
    """A seeded choice of programs out of everything in ``--all``, by reservoir."""
    plan = Plan(command="run", targets=tuple(PlannedTarget(spec=spec) for spec in TARGETS))
    generator = random.Random(seed)
    chosen: list[SourcedProgram] = []
    with workshop.source() as source:
        asked = requests_of(plan, source.index())
        for number, program in enumerate(source.programs(asked, SourceCounts())):
            if number < count:
                chosen.append(program)
            elif (place := generator.randrange(number + 1)) < count:
                chosen[place] = program
    return chosen


def cpu_seconds() -> float:
    """User and system seconds of this process and all its live descendants."""
    own = psutil.Process()
    total = sum(own.cpu_times()[:4])
    for child in own.children(recursive=True):
        try:
            times = child.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total


@dataclasses.dataclass(frozen=True)
class Bare:
    """One bare loop: indices of the programs that it ran, its CPU-seconds for one pass, and where its results lie."""

    usable: set[int]
    seconds: float
    results: Path


def bare(
    target: PoolTarget,
    programs: Sequence[SourcedProgram],
    repeats: int,
    folder: Path,
    as_worker: bool,
) -> Bare:
    """The bare loop over programs, in the framework's own settings or ``as_worker`` has them.

    A framework may die on a program here too; it is then left out and the loop begun anew.
    """
    left_out: set[int] = set()
    while True:
        kept = [index for index in range(len(programs)) if index not in left_out]
        blobs = folder / "blobs"
        with blobs.open("wb") as file:
            for index in kept:
                blob = programs[index].blob
                file.write(struct.pack("<Q", len(blob)) + blob)
        environment = target.environment
        results = folder / f"results-{environment.framework}"
        answer = subprocess.run(
            [
                *(environment.python, HERE / "bare_loop.py", environment.framework),
                *(blobs, str(repeats), results),
            ],
            env={
                "PATH": os.environ["PATH"],
                "OMP_NUM_THREADS": "1",
                "LD_LIBRARY_PATH": ":".join(map(str, environment.library_paths)),
                **({} if as_worker else OWN_SETTINGS),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        lines = answer.stdout.splitlines()
        if answer.returncode == 0:
            said = json.loads(lines[-1])
            return Bare({kept[index] for index in said["usable"]}, said["cpu_seconds"], results)
        if not lines:
            raise RuntimeError(f"the bare loop on {target.label} did not start")
        left_out.add(kept[int(lines[-1])])


def allclose_seconds(first: Path, second: Path, repeats: int) -> float:
    """CPU-seconds of one pass of ``numpy.allclose`` over what two bare loops wrote."""
    pairs = [
        pair
        for left, right in zip(read_results(first), read_results(second), strict=True)
        for pair in zip(left, right, strict=False)
        if pair[0].shape == pair[1].shape
    ]
    started = time.process_time()
    for _ in range(repeats):
        for left, right in pairs:
            np.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)
    return (time.process_time() - started) / repeats


def read_results(path: Path) -> list[list[npt.NDArray[Any]]]:
    """Each program's arrays."""
    programs: list[list[npt.NDArray[Any]]] = []
    with path.open("rb") as file:
        while prefix := file.read(8):
            (count,) = struct.unpack("<Q", prefix)
            programs.append([np.load(file, allow_pickle=False) for _ in range(count)])
    return programs


def bare_pass(
    targets: Sequence[PoolTarget],
    programs: Sequence[SourcedProgram],
    repeats: int,
    folder: Path,
    as_worker: bool,
) -> float:
    """CPU-seconds of one pass on both frameworks, comparison with ``numpy.allclose`` included."""
    loops = [bare(target, programs, repeats, folder, as_worker) for target in targets]
    if any(len(loop.usable) != len(programs) for loop in loops):
        raise RuntimeError("a bare loop failed on a program that it had run before")
    compared = allclose_seconds(loops[0].results, loops[1].results, repeats)
    return sum(loop.seconds for loop in loops) + compared


def runnable(
    pool: Pool, targets: Sequence[PoolTarget], programs: list[SourcedProgram], folder: Path
) -> list[SourcedProgram]:
    """The programs that both frameworks run to their end, ours and bare."""
    jobs = (Job(number, program.blob, program.op) for number, program in enumerate(programs))
    fine = sorted(
        result.job.id
        for result in pool.run(jobs)
        if all(b'"status":"ok"' in outcome.header for outcome in result.outcomes)
    )
    chosen = [programs[number] for number in fine]
    for target in targets:
        usable = bare(target, chosen, 1, folder, as_worker=True).usable
        chosen = [program for index, program in enumerate(chosen) if index in usable]
    return chosen


def ours(pool: Pool, programs: Iterable[SourcedProgram], repeats: int, folder: Path) -> float:
    """CPU-seconds of one pass: pool, comparison and journal."""
    labels = [target.label for target in pool.targets]
    frameworks = [target.environment.framework for target in pool.targets]
    plan = Plan(command="run", targets=tuple(PlannedTarget(spec=label) for label in labels))
    quiet = Progress(quiet=True)
    programs = list(programs)
    total = 0.0
    for number in range(repeats + 1):
        with RunDirectory.create(folder / f"run{number}", plan) as directory:
            measurement = Measurement(pool, Comparator(labels, frameworks), directory, quiet)
            before = cpu_seconds()
            measurement.run(programs, Measured(), None)
            if number:  # the first pass warms up
                total += cpu_seconds() - before
    return total / repeats


def row(
    pool: Pool,
    targets: Sequence[PoolTarget],
    programs: list[SourcedProgram],
    repeats: int,
    folder: Path,
) -> tuple[str, ...]:
    """A workload's figures. All are interleaved in time, so that a machine whose speed drifts treats them alike."""
    chosen = runnable(pool, targets, programs, folder)
    own: list[float] = []
    as_worker: list[float] = []
    our: list[float] = []
    for number in range(ROUNDS):
        own.append(bare_pass(targets, chosen, repeats, folder, as_worker=False))
        our.append(ours(pool, chosen, repeats, folder / f"round{number}"))
        as_worker.append(bare_pass(targets, chosen, repeats, folder, as_worker=True))
    best_own, best_ours, best_as_worker = min(own), min(our), min(as_worker)
    return (
        str(len(chosen)),
        f"{len(chosen) / best_own:,.0f}",
        f"{len(chosen) / best_ours:,.0f}",
        f"{best_ours / best_own:.2f}",
        f"{best_ours / best_as_worker:.2f}",
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--all-programs", type=int, default=1000, help="programs out of --all; 0 leaves them out"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with EnvironmentStore(progress=lambda line: print(line, file=sys.stderr)) as store:
        targets = [resolve(spec, store) for spec in TARGETS]
        sandboxed = [dataclasses.replace(targets[0], untrusted=True), targets[1]]
        work = workloads()
        if options.all_programs:
            work["--all"] = sample_of_all(
                Workshop(store, Progress(quiet=True)), options.all_programs, options.seed
            )
        table = Table(
            *("workload", "cases", "bare: cases per CPU-s", "ours: cases per CPU-s"),
            *("ours / bare", "ours / bare in the workers' settings"),
        )
        with tempfile.TemporaryDirectory() as scratch, Pool(sandboxed) as pool:
            for fact in pool.facts():
                print(
                    f"{fact.target.label}: {fact.isolation} {fact.unisolated or ''}",
                    file=sys.stderr,
                )
            for number, (name, programs) in enumerate(work.items()):
                folder = Path(scratch) / str(number)
                folder.mkdir()
                table.add_row(name, *row(pool, targets, programs, options.repeats, folder))
        Console().print(table)
        print(f"measured on {time.strftime('%Y-%m-%d')} with {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
