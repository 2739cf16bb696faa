"""The tape over a small functional framework of NumPy: what is recorded, and what comes back. Values by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).parents[3] / "bot" / "worker"

# A framework of NumPy arrays whose functions bring their own pullback: PULLBACKS[function](arguments, cotangents).
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from vjp_tape import Variable, VjpTape

def mul(a, b): return a * b
def both(a): return {"double": 2 * a, "rest": [a.astype(int), "text"]}
def picked(members, where): return members[1][where]
PULLBACKS = {
    mul: lambda arrays, cots: [cots[0] * arrays[-1], cots[0] * arrays[0]][: len(arrays)],
    both: lambda arrays, cots: [2 * cots[0]],
    picked: lambda arrays, cots: [None, np.array([0.0, cots[0]])],
}
calls = []

def run(primal, arrays):
    return primal(*arrays)

def vjp(primal, arrays, wanted):
    calls.append((primal.function.__name__, list(wanted)))
    def pullback(cots):
        calls.append([None if c is None else np.asarray(c).tolist() for c in cots])
        if primal.function is mul and len(arrays) == 1:
            return [2 * cots[0] * arrays[0]]
        return PULLBACKS[primal.function](arrays, cots)
    return primal(*arrays), pullback

tape = VjpTape(run, vjp, np.add, lambda v: isinstance(v, (np.ndarray, np.generic)), lambda a: a.dtype.kind == "f")
x = Variable(np.array([1.0, 3.0]))
y = Variable(np.array([2.0, 5.0]))
"""


def run(lines: str) -> list[Any]:
    """What the lines print, evaluated. The worker's folder must be first on the path, so in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT + lines, str(WORKER)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return [eval(line, {"__builtins__": {}}) for line in ran.stdout.splitlines()]


def test_a_product_twice_and_a_sum_of_what_comes_back() -> None:
    """z = x y and w = z x = x^2 y: dw/dx = 2 x y, dw/dy = x^2."""
    assert run("""
tape.require_grad(x); tape.require_grad(y)
z = tape.call(mul, [x, y])
w = tape.call(mul, [z, x])
tape.backward([w], [np.ones(2)])
print(w.array.tolist(), tape.gradient(x).tolist(), tape.gradient(y).tolist(), sep=chr(10))
""") == [[2, 45], [4, 30], [1, 9]]


def test_several_outputs_at_once_and_a_second_backward_add_up() -> None:
    """d(x y)/dx = y from one output and 10 y from the other; then y once more."""
    assert run(
        """
tape.require_grad(x)
z = tape.call(mul, [x, y]); w = tape.call(mul, [x, y])
tape.backward([z, w], [np.ones(2), 10 * np.ones(2)])
print(tape.gradient(x).tolist())
tape.backward([z], [np.ones(2)])
print(tape.gradient(x).tolist(), tape.gradient(y))
""".replace("tape.gradient(y))", "[tape.gradient(y)], sep=chr(10))")
    ) == [
        [22, 55],
        [24, 60],
        [None],
    ]


def test_one_variable_in_two_places_is_one_primal() -> None:
    """d(x x)/dx = 2 x."""
    assert run("""
tape.require_grad(x)
z = tape.call(mul, [x, x])
tape.backward([z], [np.ones(2)])
print(calls[0], tape.gradient(x).tolist(), sep=chr(10))
""") == [("mul", [True]), [2, 6]]


def test_nothing_is_recorded_without_a_leaf() -> None:
    assert run("""
z = tape.call(mul, [x, y])
print(calls, z.array.tolist(), z.source, sep=chr(10))
""") == [[], [2, 15], None]


def test_nested_results_and_arguments_keep_their_nesting() -> None:
    """Cotangents of results that nothing came back to, integers among them, are None."""
    assert run("""
tape.require_grad(x)
found = tape.call(both, [x])
print(found["rest"][0].array.tolist(), found["rest"][1:], found["rest"][0].source, sep=chr(10))
last = tape.call(picked, [(y, found["double"]), Variable(np.array(1))])
tape.backward([last], [np.array(7.0)])
print(calls, tape.gradient(x).tolist(), sep=chr(10))
""") == [
        [1, 3],
        ["text"],
        None,
        [("both", [True]), ("picked", [False, True, False]), [7], [[0, 7], None]],
        [0, 14],
    ]


def test_an_assigned_variable_depends_on_its_new_value_and_a_leaf_stays_the_old_ones() -> None:
    """z = x y is put into x; w = x y = x0 y^2 then, and dw/dx0 = y^2."""
    assert run("""
tape.require_grad(x)
x.assign(tape.call(mul, [x, y]))
w = tape.call(mul, [x, y])
tape.backward([w], [np.ones(2)])
print(x.array.tolist(), tape.gradient(x).tolist(), sep=chr(10))
""") == [[2, 15], [4, 25]]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("tape.require_grad(Variable(np.array([1])))", "float or complex"),
        ("tape.backward([tape.call(mul, [x, y])], [np.ones(2)])", "no output depends"),
    ],
)
def test_refusals(lines: str, says: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT + lines, str(WORKER)], capture_output=True, text=True
    )
    assert says in ran.stderr.splitlines()[-1]
