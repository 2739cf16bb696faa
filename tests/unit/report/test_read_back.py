"""A report read back as untrusted data: what is true survives, what was rendered does not, what is wrong is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import made_findings as made
import numpy as np
import pytest

from bot.oracle.tolerance import Bound
from bot.programs.builder import ProgramBuilder
from bot.report.bundle import FindingBundle
from bot.report.read_back import read_run
from bot.report.repro_script import repro_script
from bot.report.results import read_results
from bot.report.rows import finding_row
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


@pytest.mark.parametrize("name", BUNDLES)
def test_a_script_is_written_anew_from_the_folder_alone(tmp_path: Path, name: str) -> None:
    original = repro_script(BUNDLES[name])
    (read,) = read_run(report_of(tmp_path, BUNDLES[name])).bundles()
    assert repro_script(read) == original
    assert finding_row(read.finding) == finding_row(BUNDLES[name].finding)


@pytest.mark.parametrize("name", BUNDLES)
def test_a_report_written_anew_says_the_same(tmp_path: Path, name: str) -> None:
    first = report_of(tmp_path / "first", BUNDLES[name])
    run = read_run(first)
    write_report(tmp_path / "second", run.results, run.bundles())
    second = files_of(tmp_path / "second")
    same = {name for name in first if name.endswith(("repro.py", ".safetensors", "program.opdiff"))}
    assert {name: second[name] for name in same} == {name: first[name] for name in same}
    assert set(second) == set(first)
    old, new = (read_results(tmp_path / part / "results.json") for part in ("first", "second"))
    assert new.findings == old.findings
    assert new.notes == old.notes
    again = read_run(second)
    write_report(tmp_path / "third", again.results, again.bundles())
    assert files_of(tmp_path / "third") == second


def test_every_script_says_something_else() -> None:
    """The table above tests ways that differ; to lack an op and to refuse it is one test."""
    texts = {repro_script(entry) for entry in BUNDLES.values()}
    assert len(texts) == len(BUNDLES) - 1
