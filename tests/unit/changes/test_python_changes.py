"""Changes read from Python, in PyTorch's layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.changes.change import Changes
from bot.changes.changes_json import to_json

Run = Callable[[dict[str, str | bytes | None], dict[str, str | bytes | None]], Changes]

FUNCTIONAL = '''"""Functional interface."""
import torch
from torch import _VF

def _scale(x, factor):
    # one comment
    return x * factor


def _shared(x):
    return x


def softsign(input):
    """Doc."""
    return _scale(input, 2)


def tanhshrink(input):
    return input - input.tanh()


def normalize(input, p=2.0):
    return _shared(input)


def glu(input):
    return _shared(input)


def elu(input):
    return _shared(input)


def gelu_helper_free(input):
    return _shared(input)


conv1d = _add_docstr(torch.conv1d, r"""The docs.""")
'''
TREE: dict[str, str | bytes | None] = {
    "torch/__init__.py": "from torch._tensor import Tensor\nfrom torch.functional import *\nfrom torch import nn\n",
    "torch/functional.py": '__all__ = ["einsum"]\n\ndef einsum(*args):\n    return _go(args)\n\ndef _go(a):\n    return a\n',
    "torch/_tensor.py": "class Tensor(torch._C.TensorBase):\n    def norm(self, p=2):\n        return 1\n\n    def __repr__(self):\n        return 'x'\n",
    "torch/nn/__init__.py": "from torch.nn.modules import *\n",
    "torch/nn/functional.py": FUNCTIONAL,
    "torch/nn/modules/__init__.py": "from .activation import Softsign, Hidden\nfrom .norm import BatchNorm1d, BatchNorm2d\nfrom .module import Module\n",
    "torch/nn/modules/module.py": "class Module:\n    def train(self):\n        return self\n",
    "torch/nn/modules/activation.py": (
        "from .. import functional as F\nfrom .module import Module\n\n"
        "class Softsign(Module):\n    def forward(self, x):\n        return F.softsign(x)\n\n"
        "    def extra_repr(self):\n        return ''\n\nclass Hidden(Module):\n    pass\n"
    ),
    "torch/nn/modules/norm.py": (
        "from .module import Module\n\nclass _NormBase(Module):\n    def reset(self):\n        return 1\n\n"
        "    def other(self):\n        return 1\n\n"
        "class BatchNorm1d(_NormBase):\n    pass\n\nclass BatchNorm2d(_NormBase):\n    def other(self):\n        return 2\n"
    ),
    "torch/_refs/__init__.py": "def logaddexp(a, b):\n    return a\n",
}


def edit(file: str, old: str, new: str) -> dict[str, str | bytes | None]:
    text = TREE[file]
    assert isinstance(text, str)
    assert old in text
    return {file: text.replace(old, new)}


def named(changes: Changes) -> dict[str, str]:
    return {op.op: op.how for op in changes.ops}


def test_a_function_with_its_module_is_one_op(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("torch/nn/functional.py", "input, 2)", "input, 3)"))
    (op,) = changes.ops
    assert (changes.framework, op.op, op.how, op.in_python) == (
        "torch",
        "nn.functional.softsign",
        "direct",
        True,
    )
    assert set(op.aliases) == {"torch.nn.functional.softsign", "torch.nn.Softsign"}
    (run,) = op.lines
    line = FUNCTIONAL.splitlines().index("    return _scale(input, 2)") + 1
    assert (run.file, run.first, run.last) == ("torch/nn/functional.py", line, line)
    assert "torch/nn/functional.py" in op.path[0]
    assert not changes.unmapped


def test_a_private_helper_is_followed_to_its_users(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("torch/nn/functional.py", "x * factor", "factor * x + 0"))
    assert named(changes) == {"nn.functional.softsign": "direct"}
    (op,) = changes.ops
    assert any("uses _scale" in step for step in op.path)


def test_a_helper_of_many_is_indirect(changes_of: Run) -> None:
    changes = changes_of(
        TREE,
        edit(
            "torch/nn/functional.py",
            "def _shared(x):\n    return x",
            "def _shared(x):\n    return x + 0",
        ),
    )
    ops = named(changes)
    assert ops["nn.functional.normalize"] == ops["nn.functional.glu"] == "indirect"
    assert "nn.functional.softsign" not in ops


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    # one comment\n", "    # another\n\n"),
        ('"""Doc."""', '"""Other words.\n\n    Over lines."""'),
        ("input - input.tanh()", "(\n        input\n        - input.tanh()\n    )"),
        ('"""Functional interface."""', "# Copyright someone\n"),
        ('r"""The docs."""', 'r"""Better docs."""'),
    ],
)
def test_words_and_layout_change_nothing(changes_of: Run, old: str, new: str) -> None:
    changes = changes_of(TREE, edit("torch/nn/functional.py", old, new))
    assert (changes.ops, changes.unmapped) == ((), ())
    assert any("no change in what the code does" in note for note in changes.notes)


def test_moved_code_changes_nothing(changes_of: Run) -> None:
    text = FUNCTIONAL
    glu = "def glu(input):\n    return _shared(input)\n\n\n"
    moved = text.replace(glu, "").replace("def normalize", glu + "def normalize")
    changes = changes_of(TREE, {"torch/nn/functional.py": moved})
    assert (changes.ops, changes.unmapped) == ((), ())


def test_a_private_base_class_fans_out_but_not_to_overriders(changes_of: Run) -> None:
    changes = changes_of(
        TREE,
        edit(
            "torch/nn/modules/norm.py",
            "def reset(self):\n        return 1",
            "def reset(self):\n        return 2",
        ),
    )
    assert {a for op in changes.ops for a in op.aliases} == {
        "torch.nn.BatchNorm1d",
        "torch.nn.BatchNorm2d",
    }
    changes = changes_of(
        TREE,
        edit(
            "torch/nn/modules/norm.py",
            "def other(self):\n        return 1",
            "def other(self):\n        return 3",
        ),
    )
    assert {a for op in changes.ops for a in op.aliases} == {"torch.nn.BatchNorm1d"}


def test_methods_of_tensor(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("torch/_tensor.py", "return 1", "return 2"))
    assert [op.aliases for op in changes.ops] == [("torch.Tensor.norm",)]


def test_names_exported_with_a_star(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("torch/functional.py", "return a\n", "return a or ()\n"))
    assert [(op.op, op.aliases) for op in changes.ops] == [("einsum", ("torch.einsum",))]


def test_references_stand_for_ops(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("torch/_refs/__init__.py", "return a", "return b"))
    assert named(changes) == {"logaddexp": "direct"}


def test_printing_and_module_machinery_are_no_op(changes_of: Run) -> None:
    changes = changes_of(TREE, edit("torch/nn/modules/activation.py", "return ''", "return 'x'"))
    assert changes.ops == ()
    changes = changes_of(TREE, edit("torch/nn/modules/module.py", "return self", "return None"))
    assert changes.ops == ()
    assert [entry.file for entry in changes.unmapped] == ["torch/nn/modules/module.py"]


def test_docs_ci_and_tests_map_to_no_op_and_are_named(changes_of: Run) -> None:
    edits: dict[str, str | bytes | None] = {
        "docs/source/nn.rst": "x", ".github/workflows/a.yml": "x", "test/test_nn.py": "x = 1\n", "README.md": "x",
    }  # fmt: skip
    changes = changes_of(TREE, edits)
    assert (changes.ops, changes.unmapped) == ((), ())
    assert len(changes.notes) == 3
    assert any("README.md, docs/source/nn.rst" in note for note in changes.notes)


def test_nothing_is_lost_in_silence(changes_of: Run) -> None:
    edits: dict[str, str | bytes | None] = {
        "torch/broken.py": "def f(:\n", "torch/lib.so": b"\0\0", "torch/nn/data.bin": b"\0", "setup.py": "x = 1\n",
        "torch/_orphan.py": "def _nobody():\n    return 1\n", "torch/binary.py": b"x = 1\n\0",
    }  # fmt: skip
    changes = changes_of(TREE, edits)
    assert {entry.file for entry in changes.unmapped} == set(edits)
    assert all(entry.why for entry in changes.unmapped)


def test_the_json_has_exactly_the_promised_keys(changes_of: Run) -> None:
    printed = to_json(changes_of(TREE, edit("torch/nn/functional.py", "input, 2)", "input, 3)")))
    assert {"framework", "ops", "tests", "unmapped"} <= set(printed)
    assert {"op", "how", "aliases", "path"} <= set(printed["ops"][0])
