"""Families: one cause over several ops is one finding, and two bugs are never one."""

from __future__ import annotations

from typing import Any

from bot.oracle.families import joined
from bot.oracle.finding import Finding, Mismatch, Observation
from bot.oracle.roles import Player

A, B = "megengine==1.13.0:cpu", "torch==2.13.0:cpu"
CAST = {A: Player(A, "megengine", "peer"), B: Player(B, "torch", "peer")}


def found(op: str, kind: Any, a: Observation, b: Observation, **more: Any) -> Finding:
    role, note = more.pop("role", "output"), more.pop("note", "")
    sides = ((A,), (B,))
    mismatch = Mismatch("d", kind, role, "r0", (), sides, (a, b), note=note)
    fields: dict[str, Any] = {"argument_class": {"dtypes": ["float"], "special": []}}
    return Finding(
        f"{sum(op.encode()):016x}", op, kind, "upstream", (A,), "weak", None, sides,
        "d", (mismatch,), (), **(fields | more),
    )  # fmt: skip


def scalar(op: str, shape: tuple[int, ...] = (1,)) -> Finding:
    return found(op, "shape", Observation(A, "float32", shape), Observation(B, "float32", ()))


def refusal(op: str, note: str, **more: Any) -> Finding:
    a, b = (
        Observation(A, happened="raised TypeError in forward: ..."),
        Observation(B, happened="ok"),
    )
    return found(op, "refuses", a, b, role="", note=note, **more)


def test_a_shape_for_every_result_of_no_dimensions_is_one_finding_in_any_order() -> None:
    findings = [scalar("exp"), scalar("abs"), scalar("sin")]
    (one,) = joined(findings, CAST)
    assert (one.op, one.ops, one.count) == ("abs", ("exp", "sin"), 3)
    assert "[1] on megengine==1.13.0:cpu" in one.evidence[-1].says
    assert joined(findings[::-1], CAST) == [one]


def test_the_fingerprint_says_nothing_of_how_many_ops_there_are() -> None:
    few = joined([scalar("abs"), scalar("exp"), scalar("sin")], CAST)
    more = joined([scalar(op) for op in ("cos", "abs", "exp", "sin", "add")], CAST)
    assert [f.fingerprint for f in few] == [f.fingerprint for f in more]


def test_two_ops_are_no_family_and_other_shapes_are_another_cause() -> None:
    assert len(joined([scalar("abs"), scalar("exp")], CAST)) == 2
    assert len(joined([scalar("abs"), scalar("exp"), scalar("sin", (2,))], CAST)) == 3


def test_wrong_values_have_no_sign_of_a_shared_cause() -> None:
    a, b = Observation(A, "float32", (2,), "1.0"), Observation(B, "float32", (2,), "2.0")
    assert len(joined([found(op, "value", a, b) for op in ("abs", "exp", "sin")], CAST)) == 3


def test_one_signature_is_one_finding_unless_it_names_an_op() -> None:
    note = "TypeError: unsupported data type for this kernel"
    ops = ("abs", "exp", "sin")
    (one,) = joined([refusal(op, note) for op in ops], CAST)
    assert one.ops == ("exp", "sin")
    naming = "RuntimeError: exp has no kernel for T"
    assert len(joined([refusal(op, naming) for op in ops], CAST)) == 3
    assert len(joined([refusal(op, "SIGSEGV") for op in ops], CAST)) == 3


def test_reductions_that_ignore_nan_are_one_and_others_blame_is_not_theirs() -> None:
    a, b = Observation(A, "float32", (), "2.0"), Observation(B, "float32", (), "nan")
    words = {"dtypes": ["float"], "special": ["nan"]}
    family = [found(op, "nan", a, b, argument_class=words) for op in ("amax", "amin", "max", "min")]
    (one,) = joined(family, CAST)
    assert one.ops == ("amin", "max", "min")
    other = found("sum", "nan", b, a, argument_class={"dtypes": ["float"], "special": []})
    assert joined([*family, other], CAST) == [one, other]
