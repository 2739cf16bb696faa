"""``docs/coverage.md``: op by framework, from saved answers of ``opdiff ops --measure --json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.errors import OpDiffError

DTYPE_ORDER = ("float64", "complex128", "float32", "complex64", "bfloat16", "float16", "int64")
"""The dtype whose answer stands for an op where several have it: the most precise one first."""


class MeasuredOp(BaseModel):
    """One op of an answer."""

    model_config = ConfigDict(frozen=True)

    op: str
    samples: int = Field(ge=0)
    supported: int = Field(ge=0)
    agreeing: int = Field(ge=0)
    gradients: int = Field(ge=0)


class Answer(BaseModel):
    """What ``opdiff ops --measure --json`` printed; some of an environment's ops in one dtype."""

    model_config = ConfigDict(frozen=True)

    framework: str
    dtype: str
    ops: list[MeasuredOp]


@dataclass(frozen=True)
class Measured:
    """One environment in one dtype: all answers together, by op name."""

    framework: str
    dtype: str
    ops: Mapping[str, MeasuredOp]


def read_answers(paths: Iterable[Path]) -> list[Measured]:
    """Answers by environment and dtype; of two answers about one op the later file's counts.

    Raises OpDiffError for a file that is no such answer.
    """
    found: dict[tuple[str, str], dict[str, MeasuredOp]] = {}
    for path in paths:
        try:
            answer = Answer.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            line = " ".join(str(error).split())[:200]
            raise OpDiffError(
                f"{path}: no answer of `opdiff ops --measure --json`: {line}"
            ) from None
        ops = found.setdefault((answer.framework, answer.dtype), {})
        ops.update((op.op, op) for op in answer.ops)
    return [
        Measured(framework, dtype, ops)
        for (framework, dtype), ops in sorted(found.items(), key=lambda item: _order(*item[0]))
    ]


def coverage_page(measured: Sequence[Measured]) -> str:
    """The page in Markdown: a table of totals, and one of every op. The same answers give the same bytes."""
    return "\n".join([_HEAD, *_totals(measured), "", _CELLS, *_table(measured)]) + "\n"


_HEAD = """# Coverage

Which ops each framework really covers. Every OpInfo of the pinned PyTorch release is run with its own samples, on
PyTorch and on the framework. A sample is *supported* where the framework gives a result, and *agrees* where nothing of
it differs from PyTorch's beyond tolerance: values, shapes, dtypes and gradients. An op is *covered* when at least one
sample agrees. Ops that PyTorch does not have in the dtype that was asked for run in another one that it has.

Where a framework has fewer samples than another, `--samples` took so many of each op's, evenly spaced.

This page is made by a command:

    opdiff ops --framework numpy --measure --json > numpy.json
    opdiff ops --page numpy.json --page jax.json > docs/coverage.md
"""

_CELLS = """## Ops

A cell says `supported/samples`, how many of them agree, and how many gradients were compared (`g`). An empty cell: the
framework takes none of the samples. A dtype in a cell: the counts are of that dtype's run, because the op takes no
sample in the first one.
"""


def _totals(measured: Sequence[Measured]) -> list[str]:
    lines = [
        "| framework | dtype | ops covered | with gradients | samples supported | agreeing |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for run in measured:
        ops = run.ops.values()
        samples, supported = sum(op.samples for op in ops), sum(op.supported for op in ops)
        covered = [op for op in ops if op.agreeing]
        lines.append(
            f"| {run.framework} | {run.dtype} | {len(covered)} of {len(run.ops)} | "
            f"{sum(op.gradients > 0 for op in covered)} | {supported} of {samples} | "
            f"{sum(op.agreeing for op in ops)} |"
        )
    return lines


def _table(measured: Sequence[Measured]) -> list[str]:
    frameworks = list(dict.fromkeys(run.framework for run in measured))
    lines = [f"| op | {' | '.join(frameworks)} |", f"| --- |{' --- |' * len(frameworks)}"]
    for op in sorted({name for run in measured for name in run.ops}):
        runs = {name: [run for run in measured if run.framework == name] for name in frameworks}
        cells = [_cell(op, runs[name]) for name in frameworks]
        lines.append(f"| `{op}` | {' | '.join(cells)} |")
    return lines


def _cell(op: str, runs: Sequence[Measured]) -> str:
    """The first dtype's counts; another's where the first takes no sample."""
    for run in runs:
        found = run.ops.get(op)
        if found is not None and found.supported:
            gradients = f", {found.gradients} g" if found.gradients else ""
            dtype = "" if run is runs[0] else f" {run.dtype}"
            return f"{found.supported}/{found.samples}, {found.agreeing}{gradients}{dtype}"
    return ""


def _order(framework: str, dtype: str) -> tuple[str, int, str]:
    place = DTYPE_ORDER.index(dtype) if dtype in DTYPE_ORDER else len(DTYPE_ORDER)
    return framework, place, dtype
