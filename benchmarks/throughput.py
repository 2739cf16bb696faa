"""Cases per CPU-second, ours with isolation on against bare in-process loops, in one run.

    .venv/bin/python benchmarks/throughput.py [--all-programs N] [--repeats N]

A case is one program run forward and backward on two frameworks. The bare loop (bare_loop.py) runs the same programs
in each framework's own interpreter with everything prepared beforehand. Ours is the pool (sandboxed as for a pull
request's code), the comparison and the journal. Both are measured in CPU-seconds of all their processes together,
after start-up; what is quoted is the ratio.
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
from collections.abc import Iterable
from pathlib import Path

import numpy as np
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
from bot.targets.job import PoolTarget
from bot.targets.pool import Pool
from bot.targets.resolve import resolve
from bot.workshop import Workshop

HERE = Path(__file__).resolve().parent
TARGETS = ("oneflow==0.9.0:cpu", "torch==2.13.0:cpu")


def simple(
    op: str, count: int, shapes: list[tuple[int, ...]], seed: int, **kwargs: object
) -> list[SourcedProgram]:
    """``count`` programs of one call over float32 tensors of the given shapes, all of which require gradients."""
    generator = np.random.default_rng(seed)
    programs: list[SourcedProgram] = []
    output = kwargs.pop("output")
    for number in range(count):
        builder = ProgramBuilder(op, seed=number)
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


def bare(
    target: PoolTarget, programs: list[SourcedProgram], repeats: int, folder: Path
) -> tuple[set[int], float]:
    """Indices that the bare loop can run, and its CPU-seconds for one pass over them."""
    blobs = folder / "blobs"
    with blobs.open("wb") as file:
        for program in programs:
            file.write(struct.pack("<Q", len(program.blob)) + program.blob)
    environment = target.environment
    answer = subprocess.run(
        [environment.python, HERE / "bare_loop.py", environment.framework, blobs, str(repeats)],
        env={
            "PATH": os.environ["PATH"],
            "OMP_NUM_THREADS": "1",
            "LD_LIBRARY_PATH": ":".join(map(str, environment.library_paths)),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    result = json.loads(answer.stdout.splitlines()[-1])
    return set(result["usable"]), result["cpu_seconds"]


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--all-programs", type=int, default=3000, help="programs out of --all; 0 leaves them out"
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
            "workload", "cases", "bare: cases per CPU-s", "ours: cases per CPU-s", "bare / ours"
        )
        with tempfile.TemporaryDirectory() as scratch, Pool(sandboxed) as pool:
            for fact in pool.facts():
                print(
                    f"{fact.target.label}: {fact.isolation} {fact.unisolated or ''}",
                    file=sys.stderr,
                )
            for name, programs in work.items():
                folder = Path(scratch)
                usable: set[int] = set(range(len(programs)))
                for target in targets:
                    usable &= bare(target, programs, 1, folder)[0]
                chosen = [program for index, program in enumerate(programs) if index in usable]
                # The two are interleaved in time, so that a machine whose speed drifts treats both alike.
                bare_seconds = sum(
                    bare(target, chosen, options.repeats, folder)[1] for target in targets
                )
                our_seconds = ours(
                    pool, chosen, options.repeats, folder / name.replace(" ", "-").replace("/", "-")
                )
                bare_seconds += sum(
                    bare(target, chosen, options.repeats, folder)[1] for target in targets
                )
                bare_seconds /= 2
                table.add_row(
                    name,
                    str(len(chosen)),
                    f"{len(chosen) / bare_seconds:,.0f}",
                    f"{len(chosen) / our_seconds:,.0f}",
                    f"{our_seconds / bare_seconds:.2f}",
                )
        Console().print(table)
        print(f"measured on {time.strftime('%Y-%m-%d')} with {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
