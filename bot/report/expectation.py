"""Which side a repro script is for, what it must expect, and by which test it tells the bug from its absence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bot.oracle.finding import Finding, Mismatch
from bot.oracle.initial import InitialTensors
from bot.oracle.tolerance import EXACT, Bound, accumulated_terms, bound_for, coarser
from bot.programs.program import Program
from bot.report.bundle import FindingBundle, Key, TargetOutcome
from bot.report.repro_code import ReproError
from bot.targets.outcome import Outcome

Array = npt.NDArray[Any]
Mode = Literal["values", "must_raise", "must_not_raise", "repeat", "crash", "hang", "memory"]
_LACKS = ("unsupported", "refused")
_DEATHS: dict[str, Mode] = {"crash": "crash", "hang": "hang", "memory": "memory"}


@dataclass(frozen=True)
class ExpectedTensor:
    """What one result must be. A Python number has the dtype ``bool``, ``int``, ``float`` or ``complex``."""

    key: Key
    label: str
    array: Array
    dtype: str
    bound: Bound


@dataclass(frozen=True)
class Expectation:
    """A script's side, its test, and the right values with the name of whom they come from."""

    subject: TargetOutcome
    mode: Mode
    source: str
    tensors: tuple[ExpectedTensor, ...] = ()


def expect(bundle: FindingBundle, program: Program, data: memoryview) -> Expectation:
    """Decide what a script for this finding must show. Raises ReproError when nothing can be said."""
    subject = _subject(bundle)
    if subject.outcome.status in _DEATHS:
        return Expectation(subject, _DEATHS[subject.outcome.status], "that it lives")
    if bundle.finding.kind == "nondeterminism":
        return Expectation(subject, "repeat", "the same target again", _repeated(bundle))
    source, right = _right(bundle, subject)
    if subject.outcome.status == "ok" and right.status == "exception":
        return Expectation(subject, "must_raise", source)
    if subject.outcome.status in ("exception", *_LACKS) and right.status == "ok":
        return Expectation(subject, "must_not_raise", source)
    initial = InitialTensors(program, data)
    tensors = tuple(
        tensor
        for mismatch in bundle.finding.mismatches
        if mismatch.role
        for tensor in [_expected(mismatch, subject, right, initial, program, bundle)]
        if tensor is not None
    )
    if not tensors:
        raise ReproError("no right value is known for what differs")
    return Expectation(subject, "values", source, tensors)


def _subject(bundle: FindingBundle) -> TargetOutcome:
    """The blamed target; undecided: one that died, else the candidate, else the first."""
    if not bundle.outcomes:
        raise ReproError("no outcomes of its program are at hand")
    ran = [e for e in bundle.outcomes if e.outcome.status not in _LACKS]
    # To lack something is a mismatch only where another build of the same release has it.
    able = bundle.outcomes if bundle.finding.kind == "refuses" else ran
    blamed = [entry for entry in able if entry.label in bundle.finding.blamed]
    dead = [entry for entry in ran if entry.outcome.status in _DEATHS]
    among = blamed or dead or ran
    if not among:
        raise ReproError("no target ran its program")
    return min(among, key=lambda entry: entry.role != "candidate")


def _right(bundle: FindingBundle, subject: TargetOutcome) -> tuple[str, Outcome]:
    if bundle.witness is not None:
        return bundle.witness
    with_subject = _side_of(subject.label, bundle.finding)
    others = [
        entry
        for entry in bundle.outcomes
        if entry is not subject
        and entry.outcome.status in ("ok", "exception")
        and entry.label not in with_subject
    ]
    if not others:
        raise ReproError("no other side's outcome is at hand")
    # Where both sides are wrong, the other one at least shows that they differ.
    best = min(others, key=lambda entry: entry.label in bundle.finding.blamed)
    return best.label, best.outcome


def _side_of(label: str, finding: Finding) -> tuple[str, ...]:
    sides = [side for side in finding.sides if label in side]
    # Two equal targets can stand on different sides: then the label alone excludes nobody.
    return sides[0] if len(sides) == 1 else ()


def _repeated(bundle: FindingBundle) -> tuple[ExpectedTensor, ...]:
    return tuple(
        ExpectedTensor((m.role, m.name, m.path), m.label, np.zeros(0), "", EXACT)
        for m in bundle.finding.mismatches
        if m.role
    )


def _expected(
    mismatch: Mismatch,
    subject: TargetOutcome,
    right: Outcome,
    initial: InitialTensors,
    program: Program,
    bundle: FindingBundle,
) -> ExpectedTensor | None:
    key = (mismatch.role, mismatch.name, mismatch.path)
    tensor = right.by_key.get(cast("Any", key))
    own = subject.outcome.by_key.get(cast("Any", key))
    if tensor is not None:
        dtype = tensor.dtype if own is None else coarser(own.dtype, tensor.dtype)
        sizes = initial.operand_sizes(with_gradients=mismatch.role == "gradient")
        terms = accumulated_terms(sizes, tensor.array.size)
        bound = bundle.bounds.get(key) or bound_for(dtype, terms, program.origin.tolerance)
        return ExpectedTensor(key, mismatch.label, tensor.array, tensor.dtype, bound)
    for role, name, path, value in right.values:
        number = _number(value) if (role, name, path) == key else None
        if number is not None:
            array: Array = np.asarray(number)
            bound = _value_bound(number, program)
            return ExpectedTensor(key, mismatch.label, array, type(number).__name__, bound)
    if mismatch.role == "gradient" and own is not None and mismatch.name in right.absent:
        zeros = np.zeros_like(own.array)  # no gradient counts as zeros
        return ExpectedTensor(key, mismatch.label, zeros, own.dtype, EXACT)
    before = initial.array(mismatch.name) if mismatch.role == "side-effect" else None
    if before is None:
        return None
    return ExpectedTensor(key, mismatch.label, before, initial.dtype(mismatch.name), EXACT)


def _number(value: Any) -> bool | int | float | complex | None:
    """A number from the program's value grammar, or None for what is none."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        try:
            if "float" in entry:
                return float(entry["float"])
            if "complex" in entry:
                real, imaginary = entry["complex"]
                return complex(float(real), float(imaginary))
        except (TypeError, ValueError):
            return None
    return None


def _value_bound(number: bool | int | float | complex, program: Program) -> Bound:
    """The tolerance of the coarsest floating input; integers and bool are exact."""
    if isinstance(number, int):
        return EXACT
    widest = "float64"
    for spec in program.tensors:
        widest = coarser(widest, spec.dtype)
    return bound_for(widest, 1, program.origin.tolerance)
