from __future__ import annotations

import ast
import base64
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import made_findings as made
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bot.report.repro_script as repro_script_module
from bot.programs.builder import ProgramBuilder, member
from bot.programs.program import Call, Origin, Program, decode
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.dialect import dialects
from bot.report.literals import array_code, literal, stored
from bot.report.repro_code import ProgramCode, ReproError
from bot.report.repro_script import repro_script
from bot.targets.op_mapping import OpMapping, OpRow, load_op_mapping


def code(program: Program, framework: str = "torch", data: bytes = b"") -> ProgramCode:
    return ProgramCode(program, memoryview(data), dialects()[framework])


def one_call(fn: str, *args: Any, **kwargs: Any) -> str:
    """The source of one call on a tensor named x."""
    builder = ProgramBuilder("neg")
    x = builder.tensor("x", np.float32(1))
    builder.call(fn, x, *args, **kwargs)
    program, data = decode(builder.blob())
    return ProgramCode(program, data, dialects()["torch"]).calls()[0]


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("r0 = torch.nn.functional.softplus(x, beta=3)", ("nn.functional.softplus", (), {"beta": 3})),
        ("r0 = x.add_(2.5)", ("Tensor.add_", (2.5,), {})),
        ("r0 = x[(slice(None, 2, None), Ellipsis)]", ("Tensor.__getitem__", ((slice(None, 2), ...),), {})),
        ("r0 = x.T", ("Tensor.T.__get__", (), {})),
        ("r0 = torch.sum(x, dim=(0,), dtype=torch.float64)", ("sum", (), {"dim": (0,), "dtype": {"dtype": "float64"}})),
        ("r0 = torch.full(x, float(\"nan\"))", ("full", (float("nan"),), {})),
        ("r0 = torch.full(x, float(\"-inf\"))", ("full", (float("-inf"),), {})),
        ("r0 = torch.full(x, -0.0)", ("full", (-0.0,), {})),
        ("r0 = torch.full(x, complex(1.0, nan))", ("full", (complex(1, float("nan")),), {})),
        ("r0 = torch.neg(x, 'a', [True, None, 1])", ("neg", ("a", [True, None, 1]), {})),
        ("r0 = torch.neg(x, torch.Size([1, 2]))", ("neg", ({"size": [1, 2]},), {})),
        ("r0 = torch.neg(x, {'k': x})", ("neg", ({"dict": [["k", {"ref": "x"}]]},), {})),
        ("r0 = torch.neg(x, torch.nn.functional.relu)", ("neg", ({"fn": "nn.functional.relu"},), {})),
        ("r0 = torch.neg(x, 'cpu', torch.channels_last)",
         ("neg", ({"device": "target"}, {"memory_format": "channels_last"}), {})),
        ("r0 = torch.neg(x, generator=torch.Generator().manual_seed(3))", ("neg", (), {"generator": {"generator": 3}})),
        ("r0 = torch.ops.aten._safe_softmax.default(x)", ("ops.aten._safe_softmax.default", (), {})),
    ],
)  # fmt: skip
def test_calls_are_written_as_people_write_them(source: str, call: tuple[str, Any, Any]) -> None:
    fn, args, kwargs = call
    assert one_call(fn, *args, **kwargs) == source


@pytest.mark.parametrize(
    "fn",
    [
        "os.system", "load", "hub.load", "jit.script", "utils.cpp_extension.load", "ops.load_library", "Tensor.__init__",
        "Tensor.__reduce_ex__", "Tensor.__class__", "classes.load_library", "Tensor.apply_", "x(); import os", "add\n",
        "import", "a.b.import", "", "a..b", "save", "compile", "_C._jit", "Tensor.__dict__.__get__",
        "serialization.load", "Tensor.register_hook", "ops.aten.x.__init__", "builtins.exec", "importlib.import_module",
        "ctypes.CDLL", "types.builtins.exec", "torch.os.system", "torch.nn.Linear.__init__", "oneflow.nn.Graph",
    ],
)  # fmt: skip
def test_names_that_are_no_tensor_op_are_refused(fn: str) -> None:
    with pytest.raises(ReproError):
        one_call(fn)


@pytest.mark.parametrize(
    "value",
    [
        {"dtype": "float32; x"}, {"dtype": 1}, {"device": "cpu')"}, {"float": "1); evil("}, {"float": 1},
        {"complex": [1]}, {"complex": ["x", 1]}, {"unknown": 1}, {"a": 1, "b": 2}, {"generator": "1; x"},
        {"slice": [1]}, {"fn": "os.system"}, {"fn": ["x"]}, {"tuple": 1}, {"dict": [1]}, {"size": None},
        {"layout": "a b"}, {"memory_format": None}, {"dtype": "hub.load"}, {"layout": "os"}, {"dtype": ["float32"]},
        {"ref": "x", "path": ["a"]}, {"ref": "x", "path": 1},
    ],
)  # fmt: skip
def test_values_outside_the_grammar_are_refused(value: Any) -> None:
    with pytest.raises(ReproError):
        one_call("neg", value)


hostile_text = st.text() | st.sampled_from(
    [
        '"""',
        "'''",
        "\\",
        "x = 1\nimport os",
        "{{ 7 * 7 }}",
        "{% raw %}",
        "\u2028",
        "__import__('os')",
        "import",
        "np",
    ]
)


@given(hostile_text, hostile_text, hostile_text, hostile_text)
def test_hostile_strings_reach_no_code(name: str, text: str, keyword: str, label: str) -> None:
    builder = ProgramBuilder("neg")
    names = [name[:100], f"{name[:100]}2", "run"]
    tensors = [builder.tensor(n, np.array([1.0, 2.0], np.float32)) for n in names if n]
    if len({str(t["ref"]) for t in tensors}) != len(tensors):
        return
    result = builder.call(
        "neg", tensors[0], text, result="result \N{BULLET} of it", **{keyword: text}
    )
    builder.output(result)
    wrong = made.ok(made.tensor("output", "result \N{BULLET} of it", np.array([1], np.float32)))
    right = made.ok(made.tensor("output", "result \N{BULLET} of it", np.array([2], np.float32)))
    mismatch = made.mismatch("value", "output", "result \N{BULLET} of it")
    blob = builder.blob()
    finding = made.finding(blob, mismatches=(mismatch,), op=label[:200], blamed=(label,))
    bundle = FindingBundle(
        finding,
        blob,
        (TargetOutcome(label, "torch", wrong), TargetOutcome(label + "2", "torch", right)),
    )
    tree = ast.parse(repro_script(bundle))
    run = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "run")
    calls = [ast.unparse(n.func) for n in ast.walk(run) if isinstance(n, ast.Call)]
    assert set(calls) <= {"torch.manual_seed", "torch.set_num_threads", "torch.tensor", "torch.neg"}
    constants = [n.value for n in ast.walk(run) if isinstance(n, ast.Constant)]
    assert text in constants
    assert {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Import)} == {
        "import sys", "import traceback", "import numpy as np", "import torch",
    }  # fmt: skip


arrays = hnp.arrays(
    st.sampled_from(
        [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_, np.complex64]
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=4),
)


@given(arrays)
def test_array_code_reads_back_to_the_last_bit(array: np.ndarray[Any, Any]) -> None:
    assert_same(array)


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.1, 1 / 3, 1e-45, 3.4028235e38, -0.0, np.inf, -np.inf], np.float32),
        np.array([5e-324, 0.1, 1.7976931348623157e308], np.float64),
        np.array([0.1, 6e-8, 65504], np.float16),
        np.array([0x7FC00001, 0xFFC00000], np.uint32).view(
            np.float32
        ),  # NaNs with payload, with sign
        np.array([2**63 - 1, -(2**63)], np.int64),
        np.array([2**64 - 1], np.uint64),
        np.array([complex(-0.0, np.nan), complex(np.inf, -0.0)], np.complex128),
        np.zeros((0, 3), np.float32),
        np.zeros((2, 0), bool),
        np.arange(1000, dtype=np.float64).reshape(10, 100) / 7,
        np.float32(0.1).reshape(()),
    ],
    ids=str,
)
def test_special_arrays_read_back_to_the_last_bit(array: np.ndarray[Any, Any]) -> None:
    assert_same(array)


def assert_same(array: np.ndarray[Any, Any]) -> None:
    import base64
    import zlib

    def stored(text: str, dtype: str, shape: tuple[int, ...]) -> Any:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape)

    names = {
        "np": np,
        "nan": float("nan"),
        "inf": float("inf"),
        "stored": stored,
        "complex": complex,
    }
    back = eval(array_code(array), names)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


def test_literals_are_the_shortest_text() -> None:
    assert literal(np.array([0.1, 1e-45, 2], np.float32)) == "[0.1, 1e-45, 2.0]"
    assert literal(np.array([[1], [2]], np.int8)) == "[[1], [2]]"
    assert literal(np.zeros(65, np.float32)) is None


def test_layouts_are_as_strided_over_one_storage() -> None:
    builder = ProgramBuilder("add")
    x = builder.tensor("x", np.array([[1, 2], [3, 4]], np.float32), strides=[1, 2], offset=1)
    y = builder.view("y", "x", [2], [2], offset=1)
    builder.call("add", x, y)
    program, data = decode(builder.blob())
    assert ProgramCode(program, data, dialects()["torch"]).inputs() == [
        "storage0 = torch.tensor([0.0, 1.0, 3.0, 2.0, 4.0], dtype=torch.float32)",
        "x = torch.as_strided(storage0, (2, 2), (1, 2), 1).detach()",
        "y = torch.as_strided(storage0, (2,), (2,), 1).detach()",
    ]


def test_modules_get_their_state_by_load_state_dict() -> None:
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", np.ones((1, 2), np.float32))
    module = builder.module(
        "nn.Linear", 2, 1, bias=False, state={"weight": np.ones((1, 2), np.float32)}
    )
    builder.output(builder.call("nn.Module.__call__", module, x, result="out"))
    program, data = decode(builder.blob())
    assert ProgramCode(program, data, dialects()["oneflow"]).calls() == [
        "r0 = oneflow.nn.Linear(2, 1, bias=False)",
        "r0_weight = oneflow.tensor([[1.0, 1.0]], dtype=oneflow.float32)",
        "r0.load_state_dict({'weight': r0_weight})",
        "out = r0(x)",
    ]


def test_observed_names_what_a_mismatch_points_to() -> None:
    builder = ProgramBuilder("nn.Linear")
    x = builder.tensor("x", np.ones((1, 2), np.float32), requires_grad=True)
    module = builder.module("nn.Linear", 2, 1, state={"weight": np.ones((1, 2), np.float32)})
    builder.output(builder.call("nn.Module.__call__", module, x, result="out"))
    program, data = decode(builder.blob())
    writer = ProgramCode(program, data, dialects()["torch"])
    assert writer.observed("output", "out", (1,)) == "out[1]"
    assert writer.observed("gradient", "x", ()) == "x.grad"
    assert writer.observed("side-effect", "x", ()) == "x"
    assert (
        writer.observed("gradient", "r0.weight", ()) == "dict(r0.named_parameters())['weight'].grad"
    )
    assert writer.observed("gradient", "r0.bias", ()) == "dict(r0.named_parameters())['bias'].grad"
    assert writer.observed("buffer", "r0.running_mean", ()) == "r0.state_dict()['running_mean']"
    for role in ("output", "gradient", "side-effect", "buffer"):
        with pytest.raises(ReproError):
            writer.observed(role, "nothing of the kind", ())


def test_intermediate_is_copied_before_a_later_call_changes_it() -> None:
    builder = ProgramBuilder("relu_")
    x = builder.tensor("x", np.ones(2, np.float32))
    first = builder.call("neg", x)
    builder.call("Tensor.add_", first, 1)
    program, data = decode(builder.blob())
    writer = ProgramCode(program, data, dialects()["torch"])
    assert writer.calls([("r0", ())]) == [
        "r0 = torch.neg(x)",
        "r0_then = r0.clone()",
        "r1 = r0.add_(1)",
    ]
    assert writer.observed("intermediate", "r0", ()) == "r0_then"


def test_every_dialect_row_has_a_source() -> None:
    for name, row in dialects().items():
        assert row.source.startswith("https://"), name
        ast.parse("\n".join([*row.setup, row.seed.format(seed=1), row.threads.format(threads=1)]))
        assert "1" in row.seed.format(seed=1), name


STAND_IN = """
import os, signal, sys, time
import numpy as np
__version__ = "0"
float32 = np.float32
mode = os.environ["MODE"]
def manual_seed(seed): pass
def set_num_threads(count): pass
def as_strided(base, shape, strides, offset): return base
class tensor:
    def __init__(self, values, dtype): self.values = np.array(values, dtype); self.grad = None; self.dtype = "x." + np.dtype(dtype).name
    def requires_grad_(self): pass
    def detach(self): return self
    def cpu(self): return self
    def numpy(self): return self.values
    def clone(self): return tensor(self.values, np.float32)
count = 0
def mul(x, factor):
    global count
    count += 1
    if mode == "abort": os.abort()
    if mode == "fpe": os.kill(os.getpid(), signal.SIGFPE)
    if mode == "exit3": os._exit(3)
    if mode == "raise": raise RuntimeError("no")
    if mode == "hang": time.sleep(60)
    if mode == "memory": globals().update(kept=np.ones(40_000_000)); time.sleep(0.5)
    result = tensor(x.values * factor, np.float32)
    if mode == "wrong": result.values[1] += 1
    if mode == "nan": result.values[2] = np.nan
    if mode == "shape": result.values = result.values[None]
    if mode == "dtype": result.values = result.values.astype(np.float64); result.dtype = "x.float64"
    if mode == "random": result.values[0] += count
    if mode == "sideeffect": x.values[0] = 9
    if mode == "negzero": result.values *= 0; result.values = -result.values
    if mode == "zero": result.values *= 0
    return result
class autograd:
    def backward(outputs, gradients): pass
"""
"""A module that stands in for PyTorch: what its ``mul`` does wrong is in the variable MODE."""


def status(tmp_path: Path, script: str, mode: str) -> int:
    """The exit status of a script whose torch is the stand-in."""
    (tmp_path / "torch.py").write_text(STAND_IN)
    (tmp_path / "repro.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", tmp_path / "repro.py"],
        env={"PYTHONPATH": str(tmp_path), "MODE": mode, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=60,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.returncode


RIGHT = made.ok(made.tensor("output", "r0", np.array([2, 4, 6], np.float32)))


@pytest.mark.parametrize(
    ("kind", "wrong", "mode"),
    [
        ("value", made.ok(made.tensor("output", "r0", np.array([2, 5, 6], np.float32))), "wrong"),
        ("nan", made.ok(made.tensor("output", "r0", np.array([2, 4, np.nan], np.float32))), "nan"),
        ("shape", made.ok(made.tensor("output", "r0", np.array([[2, 4, 6]], np.float32))), "shape"),
        ("dtype", made.ok(made.tensor("output", "r0", np.array([2.0, 4, 6]), "float64")), "dtype"),
        ("refuses", made.raised(), "raise"),
        ("refuses", made.lacking(), "raise"),
        ("crash", made.died("SIGFPE"), "fpe"),
        ("crash", made.died("SIGABRT"), "abort"),
        ("crash", made.died("exit 3"), "exit3"),
        ("hang", made.died("timeout", "hang"), "hang"),
        ("memory", made.died("memory", "memory"), "memory"),
        ("nondeterminism", made.ok(made.tensor("output", "r0", np.array([9, 4, 6], np.float32))), "random"),
    ],
)  # fmt: skip
def test_script_exits_1_while_the_bug_is_there_and_0_when_not(
    tmp_path: Path, kind: Any, wrong: Any, mode: str
) -> None:
    bundle = made.bundle(made.doubled(), wrong, RIGHT, kind=kind)
    limits = {"hang_seconds": 2.0, "memory_bytes": 200 << 20}
    script = repro_script(FindingBundle(bundle.finding, bundle.blob, bundle.outcomes, **limits))
    assert status(tmp_path, script, mode) == 1
    assert status(tmp_path, script, "healthy") == 0


def test_accepting_what_others_refuse(tmp_path: Path) -> None:
    bundle = made.bundle(made.doubled(), RIGHT, made.raised(), kind="accepts")
    assert status(tmp_path, repro_script(bundle), "healthy") == 1
    assert status(tmp_path, repro_script(bundle), "raise") == 0


def test_crash_script_ignores_another_death(tmp_path: Path) -> None:
    script = repro_script(made.bundle(made.doubled(), made.died("SIGFPE"), RIGHT, kind="crash"))
    assert status(tmp_path, script, "abort") == 0


def test_side_effect_is_compared_with_the_inputs_own_bytes(tmp_path: Path) -> None:
    wrong = made.ok(made.tensor("side-effect", "x", np.array([9, 2, 3], np.float32)))
    mismatch = made.mismatch("side-effect", "side-effect", "x")
    bundle = made.bundle(
        made.doubled(), wrong, made.ok(), kind="side-effect", mismatches=(mismatch,)
    )
    assert status(tmp_path, repro_script(bundle), "sideeffect") == 1
    assert status(tmp_path, repro_script(bundle), "healthy") == 0


def test_sign_of_zero_is_told_apart_when_it_is_all_that_differs(tmp_path: Path) -> None:
    zeros = np.zeros(3, np.float32)
    bundle = made.bundle(
        made.doubled(),
        made.ok(made.tensor("output", "r0", -zeros)),
        made.ok(made.tensor("output", "r0", zeros)),
    )
    assert status(tmp_path, repro_script(bundle), "negzero") == 1
    assert status(tmp_path, repro_script(bundle), "zero") == 0


def test_a_script_that_cannot_run_exits_2(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(STAND_IN.replace("def mul", "def nothing"))
    (tmp_path / "repro.py").write_text(repro_script(made.doubled_bundle()))
    done = subprocess.run(
        [sys.executable, tmp_path / "repro.py"],
        env={"PYTHONPATH": str(tmp_path), "MODE": "x"},
        capture_output=True,
    )
    assert done.returncode == 2


def test_a_missing_framework_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    (tmp_path / "repro.py").write_text(repro_script(made.doubled_bundle()))
    done = subprocess.run(
        [sys.executable, tmp_path / "repro.py"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (2, "no torch here\n")


def test_missing_gradient_counts_as_zeros(tmp_path: Path) -> None:
    wrong = made.ok(made.tensor("gradient", "x", np.array([2, 2, 2], np.float32)))
    right = made.Outcome("ok", absent=("x",))
    mismatch = made.mismatch("gradient", "gradient", "x")
    bundle = made.bundle(made.doubled(), wrong, right, kind="gradient", mismatches=(mismatch,))
    assert status(tmp_path, repro_script(bundle), "healthy") == 0


def test_random_op_is_compared_by_contract(tmp_path: Path) -> None:
    builder = ProgramBuilder("mul", origin=Origin(source="opinfo", random=True))
    builder.output(builder.call("mul", builder.tensor("x", np.array([1, 2, 3], np.float32)), 2))
    wrong = made.ok(made.tensor("output", "r0", np.array([np.nan] * 3, np.float32)))
    drawn = made.ok(made.tensor("output", "r0", np.array([6, 1, 4], np.float32)))
    script = repro_script(made.bundle(builder.blob(), wrong, drawn, kind="nan"))
    assert status(tmp_path, script, "nan") == 1
    assert status(tmp_path, script, "healthy") == 0


def test_undecided_script_is_the_candidates() -> None:
    wrong = made.ok(made.tensor("output", "r0", np.array([2, 5, 6], np.float32)))
    finding = made.finding(made.doubled(), blamed=(), verdict="undecided")
    outcomes = (
        TargetOutcome(made.RIGHT, "torch", RIGHT),
        TargetOutcome(made.WRONG, "oneflow", wrong, role="candidate"),
    )
    script = repro_script(FindingBundle(finding, made.doubled(), outcomes))
    assert "import oneflow" in script
    assert "[2.0, 4.0, 6.0]" in script


def test_expected_and_observed_are_stated() -> None:
    text = repro_script(made.doubled_bundle())
    assert f"expected: 4.0 (float32, shape (3,))  [{made.RIGHT}]" in text
    assert f"observed: 5.0 (float32, shape (3,))  [{made.WRONG}]" in text
    assert "1 of 3 elements differ, the first at (1,)" in text


def test_what_cannot_be_scripted_says_so() -> None:
    bundle = made.doubled_bundle()
    with pytest.raises(ReproError, match="no outcomes"):
        repro_script(FindingBundle(bundle.finding, bundle.blob))
    unknown = (
        TargetOutcome(made.WRONG, "tinygrad", RIGHT),
        TargetOutcome(made.RIGHT, "torch", RIGHT),
    )
    with pytest.raises(ReproError, match="tinygrad"):
        repro_script(FindingBundle(bundle.finding, bundle.blob, unknown))


def test_bfloat16_values_are_exact() -> None:
    builder = ProgramBuilder("neg")
    builder.call("neg", builder.tensor("x", np.array([0.1, -0.0, 3e38], ml_dtypes.bfloat16)))
    program, data = decode(builder.blob())
    line = ProgramCode(program, data, dialects()["torch"]).inputs()[0]
    values = ast.literal_eval(line.split("(", 1)[1].split(", dtype")[0])
    expected = np.array([0.1, -0.0, 3e38], ml_dtypes.bfloat16)
    assert np.array(values).astype(ml_dtypes.bfloat16).tobytes() == expected.tobytes()
    assert line.endswith("dtype=torch.bfloat16)")


def test_member_of_a_result() -> None:
    builder = ProgramBuilder("max")
    result = builder.call("max", builder.tensor("x", np.ones((2, 2), np.float32)), 0)
    builder.call("neg", member(result, 1))
    program, data = decode(builder.blob())
    assert ProgramCode(program, data, dialects()["torch"]).calls()[1] == "r1 = torch.neg(r0[1])"


def test_deep_nesting_is_refused() -> None:
    value: Any = 1
    for _ in range(40):
        value = [value]
    program = Program(
        op="neg", calls=[Call(fn="neg", args=[value], result="r")], origin=Origin(source="x")
    )
    with pytest.raises(ReproError, match="deep"):
        code(program).calls()


def test_a_getter_without_a_tensor_is_refused() -> None:
    program = Program(
        op="T", calls=[Call(fn="Tensor.T.__get__", result="r")], origin=Origin(source="x")
    )
    with pytest.raises(ReproError, match="one tensor"):
        code(program).calls()


def test_another_form_is_called_where_the_framework_lacks_this_one() -> None:
    builder = ProgramBuilder("clone")
    builder.call("clone", builder.tensor("x", np.float32(1)))
    program, data = decode(builder.blob())
    mapping = load_op_mapping("oneflow")
    assert ProgramCode(program, data, dialects()["oneflow"], "cpu", mapping).calls() == [
        "r0 = x.clone()"
    ]


def mapped(row: dict[str, Any], *args: Any, fn: str = "neg", **kwargs: Any) -> str:
    """The source of one call on x under one mapping row."""
    builder = ProgramBuilder("neg")
    builder.call(fn, builder.tensor("x", np.float32(1)), *args, **kwargs)
    program, data = decode(builder.blob())
    rows = {fn: OpRow.model_validate({"source": "made up"} | row)}
    mapping = OpMapping(framework="torch", ops=rows)
    return ProgramCode(program, data, dialects()["torch"], "cpu", mapping).calls()[0]


@pytest.mark.parametrize(
    ("source", "row", "args", "kwargs"),
    [
        ("torch.neg(x, b=1, c=2)", {"positional": ["a", "b", "c"], "keep": 1}, (1, 2), {}),
        ("torch.neg(x, beta=1)", {"rename": {"b": "beta"}}, (), {"b": 1}),
        ("torch.neg(x)", {"drop": {"b": [None]}}, (), {"b": None}),
        ("torch.neg(x, b=1)", {"drop": {"b": [None, True]}}, (), {"b": 1}),
        ("torch.neg(x)", {"drop": {"b": []}}, (), {"b": 5}),
        ("torch.neg(x, alpha=0.01)", {"defaults": {"alpha": 0.01}}, (), {}),
        ("torch.neg(x, alpha=2)", {"defaults": {"alpha": 0.01}}, (), {"alpha": 2}),
        ("torch.neg(x, dtype=torch.int64)", {"defaults": {"dtype": {"dtype": "int64"}}}, (), {}),
        ("torch.neg(x, [0, 1])", {"pack": 1}, (0, 1), {}),
        ("torch.neg(x, [0, 1])", {"pack": 1}, ([0, 1],), {}),
        ("torch.neg(x, b=False)", {"only": {"b": [False]}}, (), {"b": False}),
    ],
)
def test_scripts_call_what_the_worker_called(
    source: str, row: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert mapped(row, *args, **kwargs) == f"r0 = {source}"


@pytest.mark.parametrize("row", [{"unsupported": "another thing"}, {"only": {"b": [False]}}])
def test_calls_that_a_framework_lacks_get_no_script(row: dict[str, Any]) -> None:
    with pytest.raises(ReproError):
        mapped(row, b=True)


def test_module_classes_are_not_given_their_own_defaults() -> None:
    builder = ProgramBuilder("nn.ReLU")
    builder.call("nn.ReLU", device={"device": "target"}, dtype={"dtype": "float32"})
    builder.call("nn.ReLU", dtype={"dtype": "float64"})
    program, data = decode(builder.blob())
    assert ProgramCode(program, data, dialects()["torch"]).calls() == [
        "r0 = torch.nn.ReLU()",
        "r1 = torch.nn.ReLU(dtype=torch.float64)",
    ]


def test_a_script_of_many_mebibytes_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repro_script_module, "MAX_SCRIPT_BYTES", 1000)
    with pytest.raises(ReproError, match="replay"):
        repro_script(made.doubled_bundle())


def test_a_large_tensor_is_stored_in_short_lines() -> None:
    """A megabyte of base64 is one word; textwrap takes minutes over it."""
    array = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8)
    lines = stored(array).splitlines()
    parts = [line.strip().strip('",') for line in lines[1:-2]]
    assert max(map(len, lines)) < 120
    assert zlib.decompress(base64.b64decode("".join(parts))) == array.tobytes()
