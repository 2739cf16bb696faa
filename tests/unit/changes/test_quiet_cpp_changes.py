"""C++ edits that change nothing: aliases that nothing uses, renamed aliases and constants, prototypes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_torch_native_changes import TREE

from bot.changes.change import Changes

Files = dict[str, str | bytes | None]
Run = Callable[[Files, Files], Changes]
PATH = "aten/src/ATen/native/Extra.cpp"
TEXT = """#include <a.h>
namespace at::native {
using Unused = std::vector<int>;
using Row = std::vector<int>;
constexpr int kWidth = 4;
class Forward;
static Tensor helper(const Tensor& self, Row r);
static Tensor helper(const Tensor& self, Row r) { return self * kWidth; }
Tensor hinge(const Tensor& self) { return helper(self, Row{1}); }
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("using Unused = std::vector<int>;\n", ""),
        ("using Unused = std::vector<int>;\n", "using Unused = std::list<int>;\n"),
        ("class Forward;\n", ""),
        ("static Tensor helper(const Tensor& self, Row r);\n", ""),
        ("#include <a.h>\n", "#include <b.h>\n"),
        ("Row", "Line"),
        ("kWidth", "kColumns"),
        ("helper", "scaled"),
    ],
)
def test_no_op(changes_of: Run, old: str, new: str) -> None:
    changes = changes_of({**TREE, PATH: TEXT}, {PATH: TEXT.replace(old, new)})
    assert (changes.ops, changes.unmapped) == ((), ())
    assert any(PATH in note for note in changes.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("using Row = std::vector<int>;", "using Row = std::vector<long>;"),
        ("kWidth = 4", "kWidth = 8"),
        ("self * kWidth", "self + kWidth"),
    ],
)
def test_the_op_that_uses_it(changes_of: Run, old: str, new: str) -> None:
    changes = changes_of({**TREE, PATH: TEXT}, {PATH: TEXT.replace(old, new)})
    assert [op.op for op in changes.ops] == ["hinge"]
