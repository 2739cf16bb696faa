"""Composites: functors and Python functions that call a public op. Those whose result the op makes are told, the others are not.

A reader of a change would run ``select`` again for ``as_strided``, of which it is made, but not ``std`` for the constant that it
returns on one branch.
"""

from __future__ import annotations

import re
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.cpp_results import share_of_results
from bot.changes.frameworks.oneflow.python_results import calls_of
from bot.changes.frameworks.oneflow.python_results import share_of_results as share_in_python
from bot.changes.frameworks.oneflow.tree import OneFlowTree, alike
from bot.changes.graph import Node

MAX_NEAR: Final = 2  # composites of a public op that are told
MAX_CALLERS: Final = 6
"""Functors, gradients and helpers that call a functional; beyond them it is a general tool."""

_MIN_SHARE: Final = 1 / 3  # of what a composite gives back
_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # as ast counts lines


def functor_gives(functor: Definition, called: str, *, alone: bool) -> bool:
    """Whether a functor's result is another functional's. One with an op of its own counts where it ``alone`` calls the other."""

    def names(tokens: tuple[str, ...], place: int) -> bool:
        return tokens[place] == called and tokens[place - 1 : place] not in ((".",), ("->",))

    if "OpBuilder" in functor.uses and not alone:
        return False
    return share_of_results(functor.code, names) >= _MIN_SHARE


def python_gives(of: OneFlowTree, node: Node, path: str) -> bool:
    """Whether what a Python function returns is another's, which a path names; a class counts by what it inherits."""
    definition = node.definition
    if definition is None or definition.kind not in ("function", "method"):
        return True
    lines = _LINE_END.split(of.tree.text(definition.file) or "")
    source = "\n".join(lines[definition.first - 1 : definition.last])
    owner, _, own = definition.name.rpartition(".")
    for call in calls_of(source):
        module, _, name = call.rpartition(".")
        if module.endswith("_C") and not path.endswith("." + name) and alike(owner or own, name):
            return False
    names = {name.rpartition(".")[2] for name in (path, *of.python.aliases(path))}
    return share_in_python(source, names) >= _MIN_SHARE
