"""Binding: which form takes which arguments, what is handed on, and what is refused instead of ignored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WORKER = HERE.parents[2] / "bot" / "worker"
FLOAT, INT, BOOL = {"kind": "float"}, {"kind": "int"}, {"kind": "bool"}

SUM = "(input, dim:int|ints, keepdim=False, *, dtype=None) -> root.call(input, axis=dim, keepdims=keepdim)"
MODE = "(input, mode:'mean'|'sum' = 'mean') -> root.call(input, mode)"
SHAPE = "(input, *shape:int) -> root.call(input, shape)"
GUARD = "(input, dim:int) when dim >= 0 -> root.call(input, dim)"
FALLBACK = "(input, dim:int) -> root.call(input, 'negative', dim)"

CASES: list[tuple[list[str], list[Any], dict[str, Any], Any]] = [
    ([SUM], [FLOAT, 1], {}, [["float"], {"axis": 1, "keepdims": False}]),
    ([SUM], [FLOAT, [0, 1], True], {}, [["float"], {"axis": [0, 1], "keepdims": True}]),
    ([SUM], [FLOAT], {"dim": -1, "keepdim": True}, [["float"], {"axis": -1, "keepdims": True}]),
    # Not handed on: only the default may be given.
    ([SUM], [FLOAT, 1], {"dtype": None}, [["float"], {"axis": 1, "keepdims": False}]),
    ([SUM], [FLOAT, 1], {"dtype": "float32"}, {"unsupported": "op: not with dtype='float32'"}),
    ([SUM], [FLOAT, 1], {"out": FLOAT}, {"unsupported": "op: not with out"}),
    ([SUM], [FLOAT], {}, {"unsupported": "op: not with dim is missing"}),
    ([SUM], [FLOAT, 1.5], {}, {"unsupported": "op: not with dim=1.5"}),
    ([SUM], [FLOAT, True], {}, {"unsupported": "op: not with dim=True"}),
    ([SUM], [FLOAT, 1, False, 2], {}, {"unsupported": "op: not with 4 positional arguments"}),
    ([SUM], [FLOAT, 1], {"dim": 2}, {"unsupported": "op: not with dim twice"}),
    ([MODE], [FLOAT], {}, [["float", "mean"], {}]),
    ([MODE], [FLOAT, "sum"], {}, [["float", "sum"], {}]),
    ([MODE], [FLOAT, "max"], {}, {"unsupported": "op: not with mode='max'"}),
    ([SHAPE], [FLOAT, 2, 3], {}, [["float", [2, 3]], {}]),
    ([SHAPE], [FLOAT, [2, 3]], {}, [["float", [2, 3]], {}]),
    ([SHAPE], [FLOAT], {}, [["float", []], {}]),
    ([SHAPE], [FLOAT, 2, 1.5], {}, {"unsupported": "op: not with shape=[2, 1.5]"}),
    # The first form that takes the arguments is called.
    ([GUARD, FALLBACK], [FLOAT, 3], {}, [["float", 3], {}]),
    ([GUARD, FALLBACK], [FLOAT, -3], {}, [["float", "negative", -3], {}]),
    ([GUARD], [FLOAT, -3], {}, {"unsupported": "op: not with its condition does not hold"}),
    # What says that it lacks something gives way to the next one that takes the arguments.
    (["(x) -> root.lacks(x)", "(x) -> root.call(x)"], [FLOAT], {}, [["float"], {}]),
    (
        ["(x) -> root.lacks(x)", "(x:Int) -> root.call(x)"],
        [FLOAT],
        {},
        {"unsupported": "op: not with no kernel of float; x=Tensor"},
    ),
    # A function in C may import; a form may not.
    (["(x:str) -> root.strptime(x, '%Y')[0]"], ["2024"], {}, 2024),
    (["(x:str) -> __import__(x)"], ["os"], {}, {"absent": "no __import__"}),
    # Kinds of tensors.
    (["(x:Float) -> root.call(x)"], [INT], {}, {"unsupported": "op: not with x=Tensor"}),
    (["(x:Real) -> root.call(x)"], [INT], {}, [["int"], {}]),
    (["(x:Number) -> root.call(x)"], [BOOL], {}, {"unsupported": "op: not with x=Tensor"}),
    (["(x:Tensor|number) -> root.call(x)"], [2], {}, [[2], {}]),
    (["(x:tensors) -> root.call(x)"], [[FLOAT, INT]], {}, [[["float", "int"]], {}]),
    (["(x:tensors) -> root.call(x)"], [[FLOAT, 1]], {}, {"unsupported": "op: not with x=[Tensor, 1]"}),
    # A default that its own annotation does not hold is still the default.
    (["(x, n:int=None) -> root.call(x, n)"], [FLOAT, None], {}, [["float", None], {}]),
    # True is not 1.
    (["(x, p=1) -> root.call(x)"], [FLOAT, True], {}, {"unsupported": "op: not with p=True"}),
    (["(x, p=1) -> root.call(x)"], [FLOAT, 1.0], {}, [["float"], {}]),
    # A release without the function has no such form.
    (["(x) -> root.gone(x)"], [FLOAT], {}, {"absent": "no root.gone"}),
    (["(x) -> root.gone(x)", "(x) -> root.call(x)"], [FLOAT], {}, [["float"], {}]),
    (["(x) -> open(x)"], ["f"], {}, {"absent": "no open"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def came() -> Any:
    cases = json.dumps([case[:3] for case in CASES])
    command = [sys.executable, str(HERE / "form_calls.py"), str(WORKER)]
    ran = subprocess.run(command, input=cases.encode(), capture_output=True, check=True)
    return json.loads(ran.stdout)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_call_by_form(came: Any, number: int) -> None:
    assert came[0][number] == CASES[number][3]


def test_an_in_place_call_puts_the_result_into_its_first_argument(came: Any) -> None:
    assert came[1] == [True, [["int", [["int", 2], {}]]]]
