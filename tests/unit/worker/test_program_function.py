"""A program's calls as one function: what is written out, what is left for a compiler to find, and what is refused."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WORKER = Path(__file__).parents[3] / "bot" / "worker"


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    """The worker's own modules import each other by their bare names."""
    sys.path.insert(0, str(WORKER))
    try:
        import program_function

        yield program_function
    finally:
        sys.path.remove(str(WORKER))


class Plain:
    """A framework whose tensors are lists of numbers and whose modules are callables with a state."""

    def __init__(self) -> None:
        self.table: dict[str, Any] = {
            "add": lambda x, y, alpha=1: [a + alpha * b for a, b in zip(x, y, strict=True)],
            "split": lambda x, at: (x[:at], x[at:]),
            "Tensor.neg": lambda x: [-a for a in x],
            "nn.Scale": Scale,
            "nn.Module.__call__": lambda module, x: module(x),
            "pow": lambda x, e: [a**e for a in x],
        }
        self.adapters: dict[str, Any] = {"pow": lambda args, kwargs: ([args[0], args[1] + 1], {})}

    def lookup(self, name: str) -> Any:
        return self.table[name]

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, list)

    def is_module(self, value: Any) -> bool:
        return isinstance(value, Scale)

    def argument(self, key: str, value: Any) -> Any:
        return (key, value)


class Scale:
    def __init__(self, by: float = 2.0) -> None:
        self.by = by

    def __call__(self, x: list[float]) -> list[float]:
        return [self.by * a for a in x]


def ref(name: str, *path: int) -> dict[str, Any]:
    return {"ref": name, "path": list(path)} if path else {"ref": name}


def call(fn: str, *args: Any, result: str, **kwargs: Any) -> dict[str, Any]:
    return {"fn": fn, "args": list(args), "kwargs": kwargs, "result": result}


def test_calls_are_lines_of_one_function_over_its_tensors(module: ModuleType) -> None:
    environment = {"a": [1.0, 2.0], "b": [10.0, 20.0], "unused": [0.0]}
    program = module.program_function(
        [
            call("add", ref("a"), ref("b"), alpha=3, result="sum"),
            call("split", ref("sum"), 1, result="parts"),
            call("add", ref("parts", 1), ref("parts", 0), result="out"),
        ],
        environment,
        Plain(),
    )
    assert program.source == (
        "def forward(x0, x1):\n"
        "    r0 = f0(x0, x1, alpha=3)\n"
        "    r1 = f1(r0, 1)\n"
        "    r2 = f2(r1[1], r1[0])\n"
        "    return (r0, r1, r2, )\n"
    )
    assert program.inputs == ("a", "b")
    assert program.results == ("sum", "parts", "out")
    # 1 + 3 * 10 and 2 + 3 * 20; the parts; their sum
    assert program.function([1.0, 2.0], [10.0, 20.0]) == ([31.0, 62.0], ([31.0], [62.0]), [93.0])


def test_values_of_the_grammar_become_literals_and_constants(module: ModuleType) -> None:
    seen: list[Any] = []
    plain = Plain()
    plain.table["add"] = lambda *args, **kwargs: seen.append((args, kwargs))
    program = module.program_function(
        [
            call(
                "add",
                None,
                -1.5,
                "it's",
                [1, True],
                {"tuple": [2, {"float": "inf"}]},
                {"slice": [None, 3, None]},
                {"dtype": "float32"},
                {"dict": [["k", {"ellipsis": True}]]},
                result="r",
            )
        ],
        {},
        plain,
    )
    program.function()
    inf = float("inf")
    expected = (None, -1.5, "it's", [1, True], (2, inf), slice(None, 3, None))
    assert seen == [((*expected, ("dtype", "float32"), {"k": ...}), {})]


def test_adapters_see_the_arguments_and_methods_are_called_as_methods(module: ModuleType) -> None:
    environment = {"a": [2.0]}
    adapted = module.program_function([call("pow", ref("a"), 2, result="r")], environment, Plain())
    assert adapted.function([2.0]) == ([8.0],)  # the adapter makes the exponent 3
    method = module.program_function(
        [call("Tensor.neg", ref("a"), result="r")], environment, Plain(), True
    )
    assert "r0 = x0.neg()" in method.source


def test_modules_are_made_before_and_called_within(module: ModuleType) -> None:
    calls = [
        call("nn.Scale", 4.0, result="m"),
        call("nn.Module.__call__", ref("m"), ref("a"), result="y"),
        call("add", ref("y"), ref("a"), result="z"),
    ]
    framework = Plain()
    assert module.first_compiled(calls, framework) == 1
    assert module.first_compiled(calls[1:], framework) == 0
    made = Scale(4.0)
    program = module.program_function(calls[1:], {"m": made, "a": [1.0]}, framework)
    assert "r0 = m0(x0)" in program.source
    assert program.modules == (("m0", made),)
    assert program.function([1.0]) == ([4.0], [5.0])


@pytest.mark.parametrize("name", ["a b", "x=1, y", "lambda", ")\nimport os\n("])
def test_an_argument_name_that_is_no_identifier_never_gets_into_the_text(
    module: ModuleType, name: str
) -> None:
    hostile = {"fn": "add", "args": [], "kwargs": {name: 1}, "result": "r"}
    with pytest.raises(Exception, match="no argument's name") as caught:
        module.program_function([hostile], {}, Plain())
    assert type(caught.value).__name__ == "RefusedError"


def test_texts_are_quoted_and_names_of_results_are_ours(module: ModuleType) -> None:
    hostile = "'); __import__('os').abort(); ('"
    seen: list[str] = []
    plain = Plain()
    plain.table["add"] = seen.append
    program = module.program_function([call("add", hostile, result=hostile)], {}, plain)
    program.function()
    assert seen == [hostile]
    assert program.results == (hostile,)


def test_compilers_that_read_source_find_it_until_it_is_forgotten(module: ModuleType) -> None:
    program = module.program_function(
        [call("add", ref("a"), ref("a"), result="r")], {"a": [1.0]}, Plain()
    )
    assert inspect.getsource(program.function) == program.source
    module.forget(program)
    with pytest.raises(OSError):
        inspect.getsource(program.function)


def test_an_exception_says_which_call_it_came_from(module: ModuleType) -> None:
    def broken(_: Any) -> None:
        raise ValueError("broken")

    plain = Plain()
    plain.table["broken"] = broken
    program = module.program_function(
        [call("Tensor.neg", ref("a"), result="r"), call("broken", ref("r"), result="s")],
        {"a": [1.0]},
        plain,
    )
    with pytest.raises(ValueError) as caught:
        program.function([1.0])
    assert program.line_of(caught.value) == 1
    said = RuntimeError(f'from user code:\n  File "{program.filename}", line 2, in forward')
    assert program.line_of(said) == 0
    assert program.line_of(RuntimeError("no place")) is None


@pytest.mark.parametrize(
    ("fn", "kwargs", "writes"),
    [
        ("add", {}, False),
        ("Tensor.add_", {}, True),
        ("nn.init.zeros_", {}, True),
        ("Tensor.__iadd__", {}, True),
        ("Tensor.__setitem__", {}, True),
        ("Tensor.__invert__", {}, False),
        ("Tensor.__add__", {}, False),
        ("add", {"out": {"ref": "a"}}, True),
        ("nn.functional.relu", {"inplace": True}, True),
        ("nn.functional.relu", {"inplace": False}, False),
        ("nn.Module.__call__", {}, True),
    ],
)
def test_which_calls_may_write_to_their_arguments(
    module: ModuleType, fn: str, kwargs: dict[str, Any], writes: bool
) -> None:
    assert module.may_write({"fn": fn, "kwargs": kwargs, "result": "r"}) is writes


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "writes"),
    [
        ("nn.functional.batch_norm", ["m", "v"], {"training": True}, True),
        ("nn.functional.batch_norm", ["m", "v"], {}, False),
        ("nn.functional.batch_norm", [None, None], {"training": True}, False),
        ("nn.functional.batch_norm", ["m", "v", None, None, True], {}, True),
        ("nn.functional.instance_norm", ["m", "v"], {}, True),
        ("nn.functional.instance_norm", [], {}, False),
        ("nn.functional.instance_norm", ["m", "v"], {"use_input_stats": False}, False),
    ],
)
def test_running_statistics_are_written_to_in_training(
    module: ModuleType, fn: str, args: list[str | bool | None], kwargs: Any, writes: bool
) -> None:
    plain = Plain()
    plain.table[fn] = lambda *args, **kwargs: None
    given = [ref(name) if isinstance(name, str) else name for name in args]
    environment = {"x": [1.0], "m": [0.0], "v": [1.0]}
    made = call(fn, ref("x"), *given, result="r", **kwargs)
    assert module.may_write(made) is writes
    assert module.program_function([made], environment, plain).writes_inputs is writes


def test_writing_to_an_input_is_told_from_writing_to_a_result(module: ModuleType) -> None:
    plain = Plain()
    plain.table["Tensor.neg_"] = plain.table["Tensor.neg"]
    first = call("Tensor.neg", ref("a"), result="r")
    to_result = [first, call("Tensor.neg_", ref("r"), result="s")]
    to_input = [first, call("Tensor.neg_", ref("a"), result="s")]
    environment = {"a": [1.0]}
    assert not module.program_function(to_result, environment, plain).writes_inputs
    assert module.program_function(to_input, environment, plain).writes_inputs
    assert module.last_writing(to_result) == 1
    assert module.last_writing([first]) == -1
