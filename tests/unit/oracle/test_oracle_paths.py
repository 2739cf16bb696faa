"""Other paths of a framework as witnesses: whom they convict, on simulated targets; and the table of paths."""

from __future__ import annotations

import numpy as np
import pytest
from made_outcomes import outcome, program, raised
from simulated_targets import Simulation, forward, to_float64, with_gradient

from bot.oracle.path_options import is_compiled, load_paths, other_paths
from bot.oracle.settle import settle
from bot.oracle.tensors import Party
from bot.oracle.witness_targets import WitnessTarget
from bot.targets.target import parse_target

FLOW, TORCH, OLDER = "oneflow==0.9.0:cpu", "torch==2.13.0:cpu", "torch==1.8.1:cpu"
SQUARE, CUBE = forward(np.square), forward(lambda x: x * x * x)
MINUS = forward(np.negative)


class Paths:
    """Other paths, by the label of their target; what was asked is kept."""

    def __init__(self, paths):
        self._paths = paths
        self.asked = []

    def reference(self):
        return None

    def paths(self, label):
        for option, function in self._paths.get(label, {}).items():
            path = f"{label}:{option}"
            framework = label.partition("=")[0]
            self.asked.append(path)
            yield WitnessTarget(
                Party(path, framework, path), Simulation([(path, framework, function)]).rerun
            )


def finding_of(targets, paths, made=None, clock=lambda: 0.0):
    simulation = Simulation([(label, label.partition("=")[0], f) for label, f in targets.items()])
    (finding,) = settle(
        simulation.cases([made or program("square", [2.0, 3.0], "f8")]),
        simulation.comparator,
        ["peer"] * len(targets),
        simulation.rerun,
        to_float64,
        clock=clock,
        others=paths,
    ).findings
    return finding


def test_a_framework_that_differs_from_itself_is_wrong_where_it_differs_from_the_others():
    paths = Paths({TORCH: {"isa=default": CUBE, "onednn=off": SQUARE}})
    finding = finding_of({FLOW: SQUARE, TORCH: CUBE}, paths)
    assert (finding.blamed, finding.confidence) == ((TORCH,), "strong")
    (said,) = [e for e in finding.evidence if e.rung == "paths"]
    assert said.says == f"{TORCH}:onednn=off agrees with {FLOW}, and not with {TORCH}"


def test_paths_that_agree_with_their_own_target_say_nothing():
    finding = finding_of(
        {FLOW: SQUARE, TORCH: CUBE}, Paths({TORCH: {"a": CUBE}, FLOW: {"b": SQUARE}})
    )
    assert (finding.verdict, finding.blamed) == ("undecided", ())


def test_a_path_with_a_fault_of_its_own_says_nothing():
    assert finding_of({FLOW: SQUARE, TORCH: CUBE}, Paths({FLOW: {"graph": MINUS}})).blamed == ()


def test_paths_that_accuse_each_other_blame_nobody():
    paths = Paths({TORCH: {"a": SQUARE}, FLOW: {"b": CUBE}})
    assert finding_of({FLOW: SQUARE, TORCH: CUBE}, paths).blamed == ()


def test_within_one_framework_a_path_is_weak():
    finding = finding_of({OLDER: SQUARE, TORCH: CUBE}, Paths({TORCH: {"onednn=off": SQUARE}}))
    assert (finding.blamed, finding.confidence) == ((TORCH,), "weak")


def test_a_path_that_takes_what_its_target_refuses():
    def refuses(_program, _x):
        return raised("RuntimeError", "no")

    finding = finding_of({FLOW: SQUARE, TORCH: refuses}, Paths({TORCH: {"onednn=off": SQUARE}}))
    assert (finding.kind, finding.blamed, finding.confidence) == ("refuses", (TORCH,), "strong")


def test_a_path_that_refuses_is_no_word_against_a_result():
    def refuses(_program, _x):
        return raised("RuntimeError", "no")

    finding = finding_of({FLOW: SQUARE, TORCH: refuses}, Paths({FLOW: {"graph": refuses}}))
    assert finding.confidence == "weak"
    assert FLOW not in finding.blamed


def test_gradients_are_asked_too():
    """The point is infinite, so that finite differences say nothing; the gradient of x is 1 everywhere."""
    right = with_gradient(np.array, np.ones_like)
    wrong = with_gradient(np.array, lambda x: np.full_like(x, 5))
    finding = finding_of({FLOW: right, TORCH: wrong}, Paths({TORCH: {"script": right}}))
    assert (finding.kind, finding.blamed, finding.confidence) == ("gradient", (TORCH,), "strong")


def test_a_path_that_is_a_target_of_the_run_is_on_a_side_already():
    compiled = f"{TORCH}:compile"
    paths = Paths({compiled: {"onednn=off": CUBE}, TORCH: {"compile": CUBE, "isa=default": CUBE}})
    finding = finding_of({TORCH: SQUARE, compiled: CUBE}, paths)
    assert (finding.blamed, finding.confidence) == ((TORCH,), "weak")


def test_a_path_that_lacks_the_op_says_nothing():
    def lacks(_program, _x):
        return outcome(status="unsupported", phase="forward", error=("UnsupportedError", "no op"))

    assert finding_of({FLOW: SQUARE, TORCH: CUBE}, Paths({TORCH: {"script": lacks}})).blamed == ()


def test_when_time_is_up_no_path_is_started():
    hours = iter(range(0, 3_600_000, 3_600))
    paths = Paths({TORCH: {"onednn=off": SQUARE}})
    finding = finding_of({FLOW: SQUARE, TORCH: CUBE}, paths, clock=lambda: float(next(hours)))
    assert (finding.blamed, paths.asked) == ((), [])


def test_what_is_settled_is_not_asked():
    """Wrong in float32 alone: the float64 runs of two frameworks settle it."""
    narrow = forward(lambda x: np.square(x) if x.dtype == np.float64 else np.square(x) + 1)
    paths = Paths({TORCH: {"onednn=off": SQUARE}})
    finding = finding_of({FLOW: SQUARE, TORCH: narrow}, paths, program("square", [2.0], "f4"))
    assert (finding.blamed, finding.confidence, paths.asked) == ((TORCH,), "strong", [])


@pytest.mark.parametrize(
    ("spec", "framework", "first", "without"),
    [
        ("torch==2.13.0:cpu", "torch", "torch==2.13.0:cpu:onednn=off", ()),
        ("torch==2.13.0:cpu:compile", "torch", "torch==2.13.0:cpu", ("script", "compile=inductor")),
        ("torch==2.13.0:cpu:threads=2,onednn=off", "torch",
         "torch==2.13.0:cpu:threads=2,onednn=off,script", ()),
        ("oneflow==0.9.0:cpu", "oneflow", "oneflow==0.9.0:cpu:graph", ()),
    ],
)  # fmt: skip
def test_paths_of_a_target(spec, framework, first, without):
    found = [str(path) for path in other_paths(parse_target(spec), framework)]
    assert found[0] == first
    assert len(set(found)) == len(found)
    assert spec not in found
    assert not {path.rpartition(",")[2] for path in found} & set(without)


def test_a_gpu_has_no_path_in_the_table():
    assert list(other_paths(parse_target("torch==2.13.0:cuda"), "torch")) == []


def test_every_path_is_told_from_its_source():
    assert len({(row.framework, row.options) for row in load_paths()}) == len(load_paths())
    assert is_compiled(parse_target("torch==2.13.0:cpu:script"))
    assert not is_compiled(parse_target("torch==2.13.0:cpu:channels_last,isa=default"))
