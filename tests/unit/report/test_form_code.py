"""Calls by form as source: the form that a worker picks, with the arguments in it; nothing of a program is run."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from bot.programs.builder import ProgramBuilder
from bot.programs.program import decode
from bot.report.adapted_call import NotAdaptedError
from bot.report.dialect import dialects
from bot.report.plain_evaluation import (
    KnownDtype,
    KnownTensor,
    Opaque,
    UnknownError,
    evaluate,
    is_literal,
)
from bot.report.repro_code import ProgramCode, ReproError
from bot.targets.op_mapping import OpMapping

SUM = [
    "(input, *, dtype=None) -> numpy.sum(input)",
    "(input, dim:int|ints, keepdim:bool=False, *, dtype:dtype=None) -> numpy.sum(input, axis=tuple(dim) if "
    "isinstance(dim, (list, tuple)) else dim, keepdims=keepdim, **({} if dtype is None else {'dtype': dtype}))",
]
ADD = [
    "(input:Int, other:number) when input.ndim == 1 -> numpy.add(input, other, casting='no')",
    "(input, other, *, alpha=1) when alpha == 1 -> numpy.add(input, other)",
    "(input, other, *, alpha:number) -> numpy.add(input, other * alpha)",
]
RESHAPE = ["(input, *shape:int) -> numpy.reshape(input, shape)"]
PADDED = [
    "(input, pad:ints) when len(pad) % 2 == 0 and all(p >= 0 for p in pad) -> "
    "numpy.pad(input, [pair for pair in zip(pad[::2], pad[1::2])])"
]
FLIP = [
    "(input, dims:ints) -> numpy.flip(input, [x for x in dims if x < input.ndim] + [len(input)])"
]
ROWS = {"sum": SUM, "add": ADD, "reshape": RESHAPE, "neg": PADDED, "flip": FLIP}


def mapping(rows: dict[str, list[str]]) -> OpMapping:
    return OpMapping.model_validate({"framework": "numpy", "source": "a test", "ops": rows})


def written(fn: str, *args: Any, of: Any = np.float32, **kwargs: Any) -> str:
    """The statement of one call on a tensor named x of shape (3,)."""
    builder = ProgramBuilder("neg")
    builder.call(fn, builder.tensor("x", np.zeros(3, of)), *args, **kwargs)
    program, data = decode(builder.blob())
    return ProgramCode(program, data, dialects()["numpy"], "cpu", mapping(ROWS)).calls()[-1]


@pytest.mark.parametrize(
    ("source", "fn", "args", "kwargs"),
    [
        ("r0 = numpy.sum(x)", "sum", (), {}),
        ("r0 = numpy.sum(x, axis=0, keepdims=True)", "sum", (0, True), {}),
        ("r0 = numpy.sum(x, axis=(0, -1), keepdims=False)", "sum", ([0, -1],), {}),
        ("r0 = numpy.sum(x, axis=0, keepdims=False, dtype=numpy.dtype('float64'))", "sum",
         (0,), {"dtype": {"dtype": "float64"}}),
        ("r0 = numpy.add(x, 2)", "add", (2,), {}),
        ("r0 = numpy.add(x, float('inf'))", "add", (float("inf"),), {}),
        ("r0 = numpy.add(x, -0.0)", "add", (-0.0,), {}),
        ("r0 = numpy.add(x, -1.0)", "add", (2,), {"alpha": -0.5}),
        # Methods, aliases and operators are called as their function is.
        ("r0 = numpy.add(x, 2)", "Tensor.add", (2,), {}),
        ("r0 = numpy.add(2, x)", "Tensor.__radd__", (2,), {}),
        ("r0 = numpy.reshape(x, (3, 1))", "reshape", (3, 1), {}),
        ("r0 = numpy.reshape(x, (3, 1))", "reshape", ([3, 1],), {}),
        ("r0 = numpy.pad(x, [(1, 2)])", "neg", ([1, 2],), {}),
        # The comprehension's x is not the program's.
        ("r0 = numpy.flip(x, [0] + [len(x)])", "flip", ([0, 4],), {}),
    ],
)  # fmt: skip
def test_the_expression_has_the_arguments_in_it(
    source: str, fn: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert written(fn, *args, **kwargs) == source


def test_the_form_is_picked_by_kind_and_by_condition() -> None:
    assert written("add", 2, of=np.int64) == "r0 = numpy.add(x, 2, casting='no')"
    assert written("add", 2.5, of=np.float64) == "r0 = numpy.add(x, 2.5)"


def test_the_kind_of_a_result_is_what_is_known_of_it() -> None:
    builder = ProgramBuilder("add")
    total = builder.call("sum", builder.tensor("x", np.zeros(3, np.float32)), result="total")
    builder.call("add", total, 1, result="last")
    program, data = decode(builder.blob())
    for dtype, shape, source in (
        ("int64", (3,), "last = numpy.add(total, 1, casting='no')"),
        ("int64", (), "last = numpy.add(total, 1)"),
        ("float32", (3,), "last = numpy.add(total, 1)"),
    ):
        known = {("total", ()): (dtype, shape)}
        writer = ProgramCode(program, data, dialects()["numpy"], "cpu", mapping(ROWS), known)
        assert writer.calls()[-1] == source
    unknown = ProgramCode(program, data, dialects()["numpy"], "cpu", mapping(ROWS))
    with pytest.raises(ReproError, match="dtype of total is not known"):
        unknown.calls()


def test_a_call_in_place_assigns_and_keeps_its_target() -> None:
    builder = ProgramBuilder("add")
    x = builder.tensor("x", np.zeros(3, np.int64))
    changed = builder.call("Tensor.add_", x, 1, result="changed")
    builder.call("add", changed, 2, result="last")
    program, data = decode(builder.blob())
    assert ProgramCode(program, data, dialects()["numpy"], "cpu", mapping(ROWS)).calls() == [
        "x[...] = numpy.add(x, 1, casting='no')",
        "changed = x",
        "last = numpy.add(changed, 2, casting='no')",
    ]


@pytest.mark.parametrize(
    ("fn", "args", "says"),
    [
        ("sum", ("no",), "not with 2 positional arguments; dim='no'"),
        ("neg", ([1],), "condition does not hold"),
        ("neg", ([1, -1],), "condition does not hold"),
        ("mul", (2,), "numpy has no mul"),
        ("Tensor.mul_", (2,), "numpy has no"),
    ],
)
def test_what_no_form_takes_has_no_script(fn: str, args: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ReproError, match=says):
        written(fn, *args)


@pytest.mark.parametrize(
    "form",
    [
        "(input, other) -> worker.secret(input, other)",
        "(input, other) when numpy.all(other) -> numpy.add(input, other)",
        "(input, other) when input.strides -> numpy.add(input, other)",
    ],
)
def test_what_only_the_worker_can_tell_has_no_script(form: str) -> None:
    builder = ProgramBuilder("add")
    builder.call("add", builder.tensor("x", np.zeros(3)), 1)
    program, data = decode(builder.blob())
    with pytest.raises(ReproError):
        ProgramCode(program, data, dialects()["numpy"], "cpu", mapping({"add": [form]})).calls()


def test_definitions_of_the_workers_own_come_with_the_script() -> None:
    builder = ProgramBuilder("add")
    builder.call("add", builder.tensor("x", np.array([1], np.int32)), 1.5)
    program, data = decode(builder.blob())
    rows = {"add": ["(input, other) -> numpy.add(*ops.promoted(input, other))"]}
    writer = ProgramCode(program, data, dialects()["numpy"], "cpu", mapping(rows))
    assert writer.calls() == ["r0 = numpy.add(*promoted(x, 1.5))"]
    scope: dict[str, Any] = {"numpy": np}
    text = "\n".join(["from __future__ import annotations", *writer.definitions()])
    exec(compile(text, "definitions", "exec"), scope)
    # An int32 tensor and a float number are float32, as torch.result_type documents.
    assert [a.dtype.name for a in scope["promoted"](np.array([1], np.int32), 1.5)] == [
        "float32"
    ] * 2


def test_a_name_of_a_definition_is_no_variable() -> None:
    builder = ProgramBuilder("add")
    builder.call("add", builder.tensor("promoted", np.array([1.0])), 1.5)
    program, data = decode(builder.blob())
    rows = {"add": ["(input, other) -> numpy.add(*ops.promoted(input, other))"]}
    writer = ProgramCode(program, data, dialects()["numpy"], "cpu", mapping(rows))

    def write() -> None:
        writer.inputs()
        writer.calls()

    with pytest.raises(ReproError, match="a name that the script needs"):
        write()


X = KnownTensor("x", "float32", (2, 3))
NAMES = {"x": X, "n": 3, "pair": [1, 2], "text": "ab", "none": None, "odd": Opaque("odd"), "d": KnownDtype("int64")}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.ndim + 1", 3),
        ("x.shape[-1]", 3),
        ("tuple(range(x.ndim))", (0, 1)),
        ("[*pair, n][::-1]", [3, 2, 1]),
        ("[a * b for a in pair for b in (1, n) if a != b]", [3, 2, 6]),
        ("n if none is None else none", 3),
        ("none is not None and x", False),
        ("1 < n <= 3", True),
        ("n in (1, 3)", True),
        ("isinstance(n, (list, int))", True),
        ("not pair", False),
        ("x.dtype == numpy.int64", False),
        ("d == numpy.int64", True),
        ("7 // 2 % 2 - n", -2),
        ("max(pair) + min(pair)", 3),
        ("x is None", False),
        ("all(p > 0 for p in pair)", True),
        ("pair * 2", [1, 2, 1, 2]),
    ],
)
def test_what_arguments_decide(text: str, value: Any) -> None:
    tree = ast.parse(text, mode="eval")
    assert evaluate(tree, NAMES, {"numpy.int64": "int64"}) == value


@pytest.mark.parametrize(
    "text",
    [
        "x == 1", "x.strides", "x.shape.rank", "numpy.all(x)", "unknown", "odd == 1", "odd is None", "x and 1",
        "[0] * 100000000", "'a' * 100000000", "10 ** 1000", "2 << 100", "'%1000000000d' % n", "list(range(10 ** 9))",
        "range(10000000)", "(lambda: 1)()", "text.format(n)", "().__class__", "open('f')", "len(x)", "x[0]",
        "[a for a in range(900) for b in range(900)]", "n * 99999999999999 * 99999999999999", "isinstance(n, numpy.int8)",
        "-x", "sum(x)", "(a := n)", "isinstance(odd, int)",
    ],
)  # fmt: skip
def test_what_arguments_do_not_decide(text: str) -> None:
    """Also what would take long or grow: nothing of a program from outside is run."""
    with pytest.raises((UnknownError, AttributeError)):
        evaluate(ast.parse(text, mode="eval"), NAMES, {})


def test_what_is_no_literal() -> None:
    assert is_literal([1, (2.5, "a", None), True])
    assert not is_literal([1, X])
    assert not is_literal({1})
    assert not is_literal(1j)


def test_errors_are_one_line() -> None:
    assert issubclass(NotAdaptedError, ValueError)
    with pytest.raises(ReproError) as caught:
        written("sum", "no\nway" * 100)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_a_framework_that_decides_by_raising_is_asked() -> None:
    builder = ProgramBuilder("tril")
    builder.call("tril", builder.tensor("x", np.ones((2, 2), np.float32)))
    program, data = decode(builder.blob())
    rows = {
        "tril": [
            "(input, diagonal=0) -> mint.tril(input)",
            "(input, diagonal=0) -> ops.tril(input)",
        ]
    }
    row = OpMapping.model_validate({"framework": "mindspore", "source": "a test", "ops": rows})
    writer = ProgramCode(program, data, dialects()["mindspore"], "cpu", row)
    assert writer.calls() == ["r0 = either(lambda: mint.tril(x), lambda: ops.tril(x))"]
