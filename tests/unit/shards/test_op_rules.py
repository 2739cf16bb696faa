"""Ops that the configuration states of files, and ops that a person names, beside those that are proven."""

from __future__ import annotations

import pytest

from bot.changes.change import ChangedLines, ChangedOp, Changes, Unmapped
from bot.changes.changeset import ChangedFile
from bot.config import OpRule
from bot.errors import OpDiffError
from bot.op_rules import check_asked, known_of, with_asked, with_rules

PROVEN = ChangedOp("add", "indirect", ("add",), ("a.py:1 changes add",), (), True)
CHANGES = Changes(
    "torch", (PROVEN,), (), (Unmapped("k/soft.cpp", "no op"), Unmapped("CMakeLists.txt", "build"))
)
SOFT = ChangedFile("k/soft.cpp", "k/soft.cpp", (3,), (3, 4, 9))
BUILD = ChangedFile("CMakeLists.txt", "CMakeLists.txt", (1,), (1,))


def rule(path: str, *ops: str) -> OpRule:
    return OpRule(paths=(path,), ops=ops)


def test_a_matched_file_is_mapped_and_says_by_whom() -> None:
    found = with_rules(CHANGES, [SOFT, BUILD], [rule("k/**", "softplus", "nn.Softplus")])
    assert [op.op for op in found.ops] == ["add", "nn.functional.softplus"]
    stated = found.ops[1]
    assert (stated.how, stated.in_python) == ("direct", False)
    assert stated.path == (
        "k/soft.cpp changes nn.functional.softplus, as stated in .github/opdiff.yml",
    )
    assert stated.lines == (ChangedLines("k/soft.cpp", 3, 4), ChangedLines("k/soft.cpp", 9, 9))
    assert [entry.file for entry in found.unmapped] == ["CMakeLists.txt"]


def test_a_file_may_be_stated_to_change_no_op() -> None:
    found = with_rules(CHANGES, [SOFT, BUILD], [rule("CMakeLists.txt")])
    assert found.ops == CHANGES.ops
    assert [entry.file for entry in found.unmapped] == ["k/soft.cpp"]
    assert found.notes == ("CMakeLists.txt: changes no op, as stated in .github/opdiff.yml",)


def test_what_is_proven_stays_whatever_is_stated() -> None:
    python = ChangedFile("a.py", "a.py", (), (1,))
    assert with_rules(CHANGES, [python], [rule("a.py")]).ops == (PROVEN,)
    assert with_rules(CHANGES, [python], [rule("a.py", "add")]).ops == (PROVEN,)


def test_a_rule_that_matches_nothing_changes_nothing() -> None:
    assert with_rules(CHANGES, [SOFT, BUILD], [rule("k/*.cu", "exp")]) == CHANGES


def test_renamed_and_deleted_files_match_by_their_old_path() -> None:
    deleted = ChangedFile("k/soft.cpp", None, (1,), ())
    found = with_rules(CHANGES, [deleted], [rule("k/**", "exp")])
    assert [op.op for op in found.ops] == ["add", "exp"]
    assert found.ops[1].lines == ()


def test_asked_ops_are_added_once() -> None:
    found = with_asked(CHANGES, ("softplus", "torch.nn.functional.softplus", "Tensor.add_"))
    assert [op.op for op in found.ops] == ["add", "nn.functional.softplus"]
    assert found.ops[0] == PROVEN
    assert found.ops[1].path == ("softplus was asked for by name",)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nonsense", "--op: no op 'nonsense' is known: see `opdiff ops`"),
        ("softpluss", "--op: no op 'softpluss' is known; near names: nn.functional.softplus"),
        (
            "unfold",
            "--op: op 'unfold' is ambiguous: say which of Tensor.unfold, nn.functional.unfold",
        ),
    ],
)
def test_an_op_that_nobody_knows_is_an_error_and_in_a_comment_a_note(name: str, says: str) -> None:
    with pytest.raises(OpDiffError) as caught:
        check_asked(("add", name))
    assert str(caught.value) == says
    known, (note,) = known_of(("add", name))
    assert known == ("add",)
    assert note == says.replace("--op", "asked for in a comment and not run")


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "torch.add",
        "nn.Softplus",
        "softplus",
        "Tensor.add_",
        "nn.functional.hardswish",
        "empty_strided",  # public, though no program is there for it
        "oneflow.nn.FusedBatchNorm2d",
    ],
)
def test_what_somebody_knows_is_taken(name: str) -> None:
    check_asked((name,))
    assert known_of((name,)) == ((name,), ())


@pytest.mark.parametrize("name", ["", "a b", "os.system()", "@team", "é", "x" * 300, "a\nb", "-x"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(OpDiffError, match="--op") as caught:
        with_asked(CHANGES, (name,))
    assert "\n" not in str(caught.value)
