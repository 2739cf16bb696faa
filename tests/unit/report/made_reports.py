"""Reports written from findings of every kind, as files."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_findings as made
import numpy as np

from bot.oracle.tolerance import Bound
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.report.bundle import FindingBundle
from bot.report.write import write_report
from bot.targets.outcome import Outcome

FOLDER = "findings/mul-0123abcd"


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by relative name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def bundle(**more: Any) -> FindingBundle:
    """As its run's targets name frameworks: the candidate is OneFlow's."""
    return made.doubled_bundle(framework="oneflow", **more)


def report_of(tmp_path: Path, *bundles: FindingBundle) -> dict[str, bytes]:
    """The files of a report on these findings."""
    write_report(tmp_path, made.results(), bundles or (bundle(),))
    return files_of(tmp_path)


def values() -> FindingBundle:
    return bundle()


def bounded() -> FindingBundle:
    own = bundle()
    bound = Bound(0.125, 1 / 3, 1e-7)
    return FindingBundle(
        own.finding, own.blob, own.outcomes, bounds={("output", "r0", ()): bound}, threads=3
    )


def witnessed() -> FindingBundle:
    own = bundle(verdict="both")
    right = made.ok(made.tensor("output", "r0", np.array([2, 4, 6], np.float32)))
    return FindingBundle(own.finding, own.blob, own.outcomes, witness=("float64", right))


def ended(wrong: Outcome, right: Outcome, kind: Any, **limits: Any) -> FindingBundle:
    mismatch = made.mismatch(kind, "", "", difference=None)
    own = made.bundle(made.doubled(), wrong, right, "oneflow", kind=kind, mismatches=(mismatch,))
    return FindingBundle(own.finding, own.blob, own.outcomes, **limits)


def good() -> Outcome:
    return made.ok(made.tensor("output", "r0", np.array([2, 4, 6], np.float32)))


def without_gradient() -> FindingBundle:
    """The right side says that the leaf gets none; the wrong one has one."""
    wrong = made.ok(made.tensor("gradient", "x", np.ones(3, np.float32)))
    mismatch = made.mismatch("gradient", "gradient", "x")
    right = Outcome("ok", phase="backward", absent=("x",))
    return made.bundle(
        made.doubled(), wrong, right, "oneflow", kind="gradient", mismatches=(mismatch,)
    )


def number() -> FindingBundle:
    """A result that is no tensor: ``Tensor.__len__`` is 3 where the candidate says 4."""
    builder = ProgramBuilder("Tensor.__len__")
    builder.output(builder.call("Tensor.__len__", builder.tensor("x", np.ones(3, np.float32))))
    wrong = Outcome("ok", values=(("output", "r0", (), 4),))
    right = Outcome("ok", values=(("output", "r0", (), 3),))
    mismatch = made.mismatch("value", "output", "r0", difference=None)
    return made.bundle(builder.blob(), wrong, right, "oneflow", mismatches=(mismatch,))


BUNDLES = {
    "values": values(),
    "bounds": bounded(),
    "witness": witnessed(),
    "no gradient": without_gradient(),
    "number": number(),
    "crash": ended(made.died("SIGFPE"), good(), "crash"),
    "exit": ended(made.died("exit 3"), good(), "crash"),
    "hang": ended(made.died("timeout", "hang"), good(), "hang", hang_seconds=2.5),
    "memory": ended(made.died("memory", "memory"), good(), "memory", memory_bytes=123_456_789),
    "refuses": ended(made.raised(), good(), "refuses"),
    "lacks": ended(made.lacking(), good(), "refuses"),
    "accepts": ended(good(), made.raised("a: b"), "accepts"),
    "repeat": bundle(kind="nondeterminism"),
    "dtype": made.bundle(
        made.doubled(),
        made.ok(made.tensor("output", "r0", np.array([2, 4, 6], np.float64), "float64")),
        good(),
        "oneflow",
        kind="dtype",
        mismatches=(made.mismatch("dtype", "output", "r0", difference=None),),
    ),
}
"""One finding for each kind of script, and for each thing that a script is written from."""


def changed(raw: bytes, **fields: Any) -> bytes:
    """A JSON object with other fields; a name with ``__`` leads inwards."""
    document = json.loads(raw)
    for name, value in fields.items():
        *steps, last = name.split("__")
        at = document
        for step in steps:
            at = at[int(step) if step.isdigit() else step]
        at[last] = value
    return json.dumps(document).encode()


def named(files: dict[str, bytes], blob: bytes) -> dict[str, bytes]:
    """The report with another program, under its right digest everywhere."""
    return files | {
        f"{FOLDER}/program.opdiff": blob,
        f"{FOLDER}/finding.json": changed(
            files[f"{FOLDER}/finding.json"], finding__program=digest(blob)
        ),
        "results.json": changed(files["results.json"], findings__0__program=digest(blob)),
    }


def peak(call: Callable[[], object]) -> int:
    """Bytes of memory that a call had at its largest."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
