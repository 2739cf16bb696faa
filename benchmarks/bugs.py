"""How many real, publicly reported op bugs are found, and on whom they are blamed.

    .venv/bin/python benchmarks/bugs.py DIR [--only ID...] [--budget 60] [--out FOLDER]

DIR holds one JSON file per bug: ``id``, ``framework``, ``versions_affected_tested``, ``kind``, ``run_ops``, ``reach`` and
``program``, a script that shows the bug. Each bug gets one ``opdiff run --op OP...`` with the first affected version whose
environment can be made as the accused, beside witnesses that one rule chooses for all:

- kind ``compile``: the version's ``compile=inductor`` mode, beside the same version without it, and the witnesses;
- kind ``cpu-kernel-path``: the accused version, beside its ``channels_last`` mode, and the witnesses;
- every other kind: the accused version, beside the witnesses.

The witnesses are torch 2.13.0, NumPy 2.4.6, oneflow 0.9.0 and paddle 3.3.1, in this order, each once.

**Found** means: a finding of one of the ops, of the bug's kind or one of its ``also_kinds``, whose sides separate the
accused from someone, and in whose smallest program lies the input class of ``program``. That class is read off its text, without a table of names:

- a NaN or an infinity is named: the finding's tensors or numbers hold one, or NaN and inf are what it is about;
- a tensor without elements or without dimensions is made: the finding has one of the same sort;
- a ``dtype=`` is named: the finding has a tensor of that class of dtypes (float, half, integer, bool, complex);
- texts are given to arguments (``mode="nearest"``): one of them is in the finding's program;
- arguments of the op are given by name: the finding's program gives the op an argument that is no tensor.

Limits: positions and magnitudes of ordinary values (a singular matrix, a threshold just below the output) are not looked
at, so that another fault of the same op, kind and class is counted as found; and a bug that shows itself with other
special values than the reported ones is not. **Right** means that the accused is among those blamed. A run that fails is a
bug that is not found. ``--out`` keeps each run's report, and ``ID.json`` with its row as soon as there is one; what is
there is not run again.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from bot.oracle.argument_class import argument_class, dtype_class
from bot.oracle.initial import InitialTensors
from bot.programs.op_groups import group_of
from bot.programs.program import Program, decode

OPDIFF = Path(sys.executable).parent / "opdiff"
WITNESSES = ("torch==2.13.0:cpu", "numpy==2.4.6:cpu", "oneflow==0.9.0:cpu", "paddle==3.3.1:cpu")
PACKAGES = {"pytorch": "torch"}
REACHES = ("op", "program", "private")
KINDS = {  # the corpus's word -> kinds of findings that show it
    "grad": {"gradient"},
    "value": {"value", "nan"},
    "shape": {"shape"},
    "dtype": {"dtype"},
    "missing-error": {"accepts", "refuses"},
    "crash": {"crash", "hang"},
    "compile": {
        "value",
        "nan",
        "shape",
        "dtype",
        "accepts",
        "refuses",
        "gradient",
        "crash",
        "hang",
    },
    "cpu-kernel-path": {"value", "nan", "gradient", "shape", "crash", "hang"},
    "hang": {"hang"},
    "nondeterminism": {"nondeterminism"},
}
MAKERS = {
    "ones",
    "zeros",
    "rand",
    "randn",
    "empty",
    "full",
    "array",
    "tensor",
    "Tensor",
    "to_tensor",
}
NOT_OPS = {"np", "numpy", "warnings", "json", "math", "os", "sys", "subprocess", "print"}
GRACE_SECONDS = 240  # beyond the budget: environments' start-up, judging, the report


@dataclass(frozen=True)
class InputClass:
    """What a script's text says of the inputs that show its bug."""

    special: bool
    empty: bool
    scalar: bool
    dtypes: frozenset[str]
    texts: frozenset[str]
    options: bool


@dataclass(frozen=True)
class Row:
    """What one bug's run came to. ``calls`` and ``elements`` are None where nothing was found."""

    id: str
    reach: str
    kind: str
    accused: str
    budget: float
    found: bool
    right: bool
    verdict: str
    confidence: str
    blamed: list[str]
    calls: int | None
    elements: int | None
    seconds: float
    findings: int
    note: str


def input_class(script: str) -> InputClass:
    """Read the input class off a script. Raises SyntaxError."""
    nodes = list(ast.walk(ast.parse(script)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    made = [call for call in calls if _tail(call.func) in MAKERS]
    of_ops = [call for call in calls if call not in made and _root(call.func) not in NOT_OPS]
    keywords = [(call, word) for call in of_ops for word in call.keywords]
    shapes = [argument for call in made for argument in call.args[:1]]
    names = {_tail(word.value) for call in calls for word in call.keywords if word.arg == "dtype"}
    names |= {_tail(argument) for call in made for argument in call.args[1:2]}
    return InputClass(
        special=any(_is_special(node) for node in nodes),
        empty=any(_is_empty(call) for call in made),
        scalar=any(
            isinstance(shape, ast.List) and not shape.elts and _tail(call.func) in ("ones", "zeros")
            for call, shape in zip(made, shapes, strict=False)
        ),
        dtypes=frozenset(dtype_class(_whole(name)) for name in names if _is_dtype(name)),
        texts=frozenset(
            str(word.value.value)
            for _, word in keywords
            if isinstance(word.value, ast.Constant)
            and isinstance(word.value.value, str)
            and word.arg not in ("backend", "end")
        ),
        options=any(
            word.arg
            not in ("flush", "default", "requires_grad", "create_graph", "dtype", "equal_nan")
            for call, word in keywords
            if _tail(call.func) not in ("print", "dumps", "grad", "backward", "max", "sum")
        ),
    )


def _tail(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.AST) -> str:
    """The first name of a path: ``np`` of ``np.errstate``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _whole(name: str) -> str:
    return {"half": "float16", "double": "float64", "long": "int64"}.get(name, name)


def _is_dtype(name: str) -> bool:
    return _whole(name).rstrip("0123456789") in (
        "float",
        "bfloat",
        "int",
        "uint",
        "bool",
        "complex",
    )


def _is_special(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ("nan", "inf")
    if isinstance(node, ast.Call) and _tail(node.func) == "float" and node.args:
        text = node.args[0]
        return isinstance(text, ast.Constant) and str(text.value).lstrip("+-") in ("nan", "inf")
    return False


def _is_empty(call: ast.Call) -> bool:
    """``ones([2, 0])``, ``rand(0)``, ``array([])``: a length of 0, or no elements. Values of 0 are no lengths."""
    name = _tail(call.func)
    if name in ("array", "tensor", "Tensor", "to_tensor"):
        return bool(call.args) and isinstance(call.args[0], ast.List) and not call.args[0].elts
    lengths: list[ast.expr] = []
    for argument in call.args[:1] if name == "full" else call.args:
        lengths += argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
    return any(isinstance(item, ast.Constant) and item.value == 0 for item in lengths)


def holds(wanted: InputClass, program: Program, data: memoryview, finding: dict[str, Any]) -> bool:
    """Whether a finding's program lies in an input class."""
    facts = argument_class(program, InitialTensors(program, data))
    inputs = program.inputs()
    text = json.dumps([[call.args, call.kwargs] for call in program.calls], default=str)
    arguments = [value for call in program.calls for value in [*call.args, *call.kwargs.values()]]
    about_special = finding["kind"] == "nan" or any(word in text for word in ('"nan"', 'inf"'))
    return (
        (not wanted.special or bool(facts["special"]) or about_special)
        and (not wanted.empty or any(0 in spec.shape for spec in inputs))
        and (not wanted.scalar or any(not spec.shape for spec in inputs))
        and (not wanted.dtypes or bool(wanted.dtypes & set(facts["dtypes"])))
        and (not wanted.texts or any(json.dumps(word) in text for word in wanted.texts))
        and (not wanted.options or any(not _is_reference(value) for value in arguments))
    )


def _is_reference(value: object) -> bool:
    return isinstance(value, dict) and "ref" in value


def targets_of(case: dict[str, Any], version: str) -> tuple[str, ...]:
    """The targets of a bug's run, the accused first."""
    package = PACKAGES.get(case["framework"], case["framework"])
    plain = f"{package}=={version}:cpu"
    witnesses = [witness for witness in WITNESSES if witness != plain]
    if case["kind"] == "compile":
        return f"{plain}:compile=inductor", plain, *witnesses
    if case["kind"] == "cpu-kernel-path":
        return plain, f"{plain}:channels_last", *witnesses
    return plain, *witnesses


def accused_version(case: dict[str, Any]) -> str | None:
    """The first affected version whose environment is there or can be made."""
    package = PACKAGES.get(case["framework"], case["framework"])
    for version in case["versions_affected_tested"]:
        command = [str(OPDIFF), "envs", "prepare", f"{package}=={version}"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return str(version)
    return None


def measure(case: dict[str, Any], budget: float, folder: Path) -> Row:
    """One bug's run, judged."""
    version = accused_version(case)
    if version is None:
        return _not_found(case, "", budget, 0.0, 0, "no affected version can be installed")
    targets = targets_of(case, version)
    command = [str(OPDIFF), "run", "--budget", str(budget), "--out", str(folder), "--quiet"]
    command += [word for op in case["run_ops"] for word in ("--op", op)]
    command += [word for target in targets for word in ("--target", target)]
    started = time.monotonic()
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=budget + GRACE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return _not_found(case, targets[0], budget, time.monotonic() - started, 0, "run timed out")
    seconds = time.monotonic() - started
    results = folder / "results.json"
    if not results.is_file():
        lines = ended.stderr.strip().splitlines() or ["no results"]
        return _not_found(case, targets[0], budget, seconds, 0, lines[-1][:160])
    findings = json.loads(results.read_text())["findings"]
    return judged(case, targets[0], findings, folder, budget, seconds)


def judged(
    case: dict[str, Any],
    accused: str,
    findings: list[dict[str, Any]],
    folder: Path,
    budget: float,
    seconds: float,
) -> Row:
    """The best of the findings that are the reported bug: blamed right and surely, then small."""
    wanted, groups = input_class(case["program"]), {group_of(op) for op in case["run_ops"]}
    kinds = set[str]().union(*(KINDS[kind] for kind in [case["kind"], *case["also_kinds"]]))
    rows: list[Row] = []
    for finding in findings:
        apart = any(accused in side for side in finding["sides"]) and len(finding["sides"]) > 1
        crashed = accused in finding["blamed"] and finding["kind"] in ("crash", "hang")
        if finding["op"] not in groups or finding["kind"] not in kinds:
            continue
        if not (apart or crashed) or not finding["folder"]:
            continue
        program, data = decode((folder / finding["folder"] / "program.opdiff").read_bytes())
        if not holds(wanted, program, data, finding):
            continue
        elements = sum(_elements(spec.shape) for spec in program.inputs())
        rows.append(
            Row(
                id=case["id"],
                reach=case["reach"],
                kind=case["kind"],
                accused=accused,
                budget=budget,
                found=True,
                right=accused in finding["blamed"],
                verdict=finding["verdict"],
                confidence=finding["confidence"],
                blamed=finding["blamed"],
                calls=len(program.calls),
                elements=elements,
                seconds=round(seconds, 1),
                findings=len(findings),
                note=f"{finding['kind']} of {finding['op']} in {finding['folder']}",
            )
        )
    if not rows:
        seen = sorted({f"{finding['op']} {finding['kind']}" for finding in findings})
        return _not_found(case, accused, budget, seconds, len(findings), "; ".join(seen))
    sure = {"proved": 0, "strong": 1, "weak": 2}
    return min(rows, key=lambda row: (not row.right, sure[row.confidence], row.elements or 0))


def _elements(shape: tuple[int, ...] | list[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


def _not_found(
    case: dict[str, Any], accused: str, budget: float, seconds: float, findings: int, note: str
) -> Row:
    return Row(
        case["id"], case["reach"], case["kind"], accused, budget, False, False, "", "", [], None, None,
        round(seconds, 1), findings, note,
    )  # fmt: skip


def show(rows: list[Row], console: Console) -> None:
    """The table, and the rates for each reach."""
    table = Table("id", "found", "right", "verdict", "blamed", "calls", "elements", "s", "note")
    for row in rows:
        verdict = f"{row.verdict} {row.confidence}".strip()
        size = [str(value) if value is not None else "" for value in (row.calls, row.elements)]
        marks = ["yes" if row.found else "no", ("yes" if row.right else "no") if row.found else ""]
        blamed, seconds = ", ".join(row.blamed), f"{row.seconds:.0f}"
        table.add_row(row.id, *marks, verdict, blamed, *size, seconds, row.note[:60])
    console.print(table)
    for reach in REACHES:
        of_reach = [row for row in rows if row.reach == reach]
        if of_reach:
            console.print(rates(reach, of_reach))


def rates(reach: str, rows: list[Row]) -> str:
    """One line: what was found, how it was blamed, and the median size."""
    found = [row for row in rows if row.found]
    sure = [row for row in found if row.confidence in ("proved", "strong")]
    right = sum(row.right for row in sure)
    wrong = sum(bool(row.blamed) and not row.right for row in sure)
    undecided = sum(row.verdict == "undecided" for row in found)
    line = f"reach {reach}: {len(found)} of {len(rows)} found"
    if not found:
        return line
    calls, elements = (
        median(row.calls or 0 for row in found),
        median(row.elements or 0 for row in found),
    )
    return (
        f"{line}; right and proved or strong {right}, wrong and proved or strong {wrong}, undecided {undecided}; "
        f"median {calls:g} calls, {elements:g} elements"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="ID", help="ids, or how they begin"
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each bug")
    parser.add_argument("--out", type=Path, help="rows and reports; those there are kept")
    given = parser.parse_args()
    directory, out = cast(Path, given.directory), cast("Path | None", given.out)
    if not directory.is_dir():
        print(f"error: {directory} is no directory", file=sys.stderr)
        return 1
    cases = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    wanted = [case for case in cases if not given.only or case["id"].startswith(tuple(given.only))]
    wanted.sort(key=lambda case: REACHES.index(case["reach"]))
    console = Console(width=200)
    with tempfile.TemporaryDirectory(prefix="opdiff-bugs-") as scratch:
        folder = out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [row_of(case, given.budget, folder, console) for case in wanted]
    show(rows, console)
    return 0


def row_of(case: dict[str, Any], budget: float, folder: Path, console: Console) -> Row:
    """The row that is kept in the folder; else the bug is run, and its row kept."""
    kept = folder / f"{case['id']}.json"
    if kept.is_file():
        return Row(**json.loads(kept.read_text()))
    row = measure(case, budget, folder / case["id"])
    kept.write_text(json.dumps(asdict(row), indent=1) + "\n")
    console.print(f"{row.id}: {'found' if row.found else 'not found'} in {row.seconds:.0f} s")
    return row


if __name__ == "__main__":
    sys.exit(main())
