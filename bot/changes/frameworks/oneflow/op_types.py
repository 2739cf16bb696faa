"""OneFlow's edges out of op types: functors and gradients that build them, Python modules, graph passes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.oneflow.declared import REGISTERED
from bot.changes.frameworks.oneflow.statements import STEM
from bot.changes.frameworks.oneflow.tree import (
    FEW_USERS,
    OneFlowTree,
    alike,
    composites,
    general_tool,
    plain,
)
from bot.changes.graph import Edge, Node
from bot.changes.sources.cpp_source import tokenize
from bot.changes.sources.tablegen import MNEMONIC
from bot.changes.sources.text_lines import TextLines

_REPLACED: Final = re.compile(
    r'op_type_name \( \) = ?= "(\w+)"|IsUserOpWithTypeName \( [^"]{0,400}, "(\w+)"'
)
_OTHER_NAME: Final = re.compile(
    r'\b\w*Attr < [^;()]{0,200} > \( "\w+"|\b(?:Input|Output) \( "\w+"|\b\w*ATTR_MAP \( [^;()]{0,900}\)'
)
"""Names of attributes and of an op's tensors (oneflow/core/framework/{attr_map,op_builder}.h): no op's own."""
MAX_BUILT: Final = 2  # op types of a functor that is told as another form of one of them
_MIN_WORD: Final = 5  # letters of a word that tells what an op is about


class OpTypes:
    """Successors of op types and of the TableGen records that ops are built on."""

    def __init__(self, of: OneFlowTree) -> None:
        self.of = of

    def record(self, name: str) -> Iterator[Edge]:
        """The ops whose records are built on a record."""
        for record in self.of.declared.records:
            if name in record.uses and record.name != name:
                match = MNEMONIC.search(record.code)
                target = Node("op type", match[1]) if match else Node("record", record.name)
                yield Edge(target, f"{record.name} is built on {name}", direct=False)

    def op_type(self, op_type: str) -> Iterator[Edge]:
        """What makes an op of the type; the op of which it is the gradient, by name, when nothing does."""
        edges = [*self._built(op_type), *self._expression(op_type), *self._stateful(op_type)]
        gradients = list(self._graph_gradients(op_type))
        # What has an op of its own name, or functors, is tested through them, not through every gradient that uses it.
        edges += [edge for edge in gradients if edge.direct] or ([] if edges else gradients)
        edges = edges or list(self._passes(op_type))
        yield from edges
        stem = STEM.sub("", op_type)
        if not edges and stem != op_type and stem in self.of.declared.op_types:
            yield Edge(Node("op type", stem), f"{op_type} is the gradient of {stem}, by name")

    def _built(self, op_type: str) -> Iterator[Edge]:
        """Functors and gradient functions that build an op of the type: its own ones, and one other.

        The other is told when the op is most of what it builds (``cross_entropy``: ``log_softmax`` and ``nll``); a fused op's
        fallback, built of many, is tested by itself, and so is one that runs the op only to fill tensors which it made before.
        """
        builders: list[Definition] = []
        listed = False
        for definition in self.of.cpp.naming(op_type, self.of.functors + self.of.gradients):
            if op_type not in tokenize(_OTHER_NAME.sub("", definition.code)).texts:
                continue
            if definition.kind == "macro":
                rows = list(self._listed(definition, op_type))
                listed = listed or bool(rows)
                yield from rows
            elif definition.kind in ("class", "function"):
                builders.append(definition)
        same = {d.name for d in builders if plain(d.name) == plain(op_type)}
        own = same or {d.name for d in builders if alike(d.name, op_type)}
        own = own or {d.name for d in builders if len(builders) <= FEW_USERS and not listed}
        others = {d.name for d in builders} - own
        for definition in builders:
            if definition.name not in own and (listed or (own and len(others) > 1)):
                continue
            if definition.name not in own and _only_fills(definition.code):
                self.of.note(composites(1, f"op {op_type} to copy"))
                continue
            built = self.of.declared.op_types.intersection(tokenize(definition.code).texts)
            if definition.name not in own and len(built) > MAX_BUILT:
                self.of.note(composites(1, f"op {op_type} among many"))
                continue
            step = f"{definition.place} builds op {op_type}"
            yield Edge(self.of.node(definition), step, definition.name in own)

    def _listed(self, macro: Definition, op_type: str) -> Iterator[Edge]:
        """Rows ``("op_type", Functor)`` of a list that a macro makes functors of."""
        for functor in re.findall(rf'"{re.escape(op_type)}" , (\w+)', macro.code):
            if functor in self.of.declared.apis_of_functor:
                step = f"{macro.place} makes functor {functor} of op {op_type}"
                yield Edge(Node("functor", functor), step)

    def _expression(self, op_type: str) -> Iterator[Edge]:
        """Functors that make the type's own expression class (``CastToGlobalOpExpr``, core/framework/op_expr.h)."""
        name = "".join(part.capitalize() for part in op_type.split("_")) + "OpExpr"
        for definition in self.of.cpp.naming(name, self.of.functors):
            if definition.kind in ("class", "function"):
                yield Edge(self.of.node(definition), f"{definition.place} makes {name}")

    def _graph_gradients(self, op_type: str) -> Iterator[Edge]:
        """``REGISTER_USER_OP_GRAD("x")`` whose body builds the type."""
        found: dict[str, Definition] = {}
        for definition in self.of.cpp.naming(op_type, self.of.user_ops):
            first = REGISTERED.search(definition.code)
            gradient = first is not None and "REGISTER_USER_OP_GRAD" in definition.uses
            if first and gradient and op_type in tokenize(definition.code).texts:
                found[first[1]] = definition
        found.pop(op_type, None)
        own = {name for name in found if plain(STEM.sub("", op_type)) == plain(name)}
        if len(found) > FEW_USERS:
            self.of.note(general_tool(f"op {op_type}", len(found)))
            found = {name: definition for name, definition in found.items() if name in own}
        for name, definition in found.items():
            step = f"{definition.place} is the gradient of {name}"
            yield Edge(Node("op type", name), step, name in own)

    def _stateful(self, op_type: str) -> Iterator[Edge]:
        """Python modules that make the op themselves: ``flow.stateful_op("x")``."""
        index = self.of.python.index
        made = re.compile(rf"(?:stateful_op|builtin_op)\(\s*[\"']{re.escape(op_type)}[\"']")
        for path in self.of.tree.containing(op_type, index.paths):
            text = self.of.tree.text(path) or ""
            module = index.module_of(path) or ""
            numbered = TextLines(text)
            lines = [numbered.number(match.start()) for match in made.finditer(text)]
            for definition in index.file(module).definitions if lines else ():
                if definition.kind == "class" and len(index.file(module).definitions) > 1:
                    continue  # its methods stand for themselves
                if any(definition.first <= line <= definition.last for line in lines):
                    node = Node("python", f"{module}.{definition.name}", definition=definition)
                    yield Edge(node, f"{definition.place} makes op {op_type}")

    def _passes(self, op_type: str) -> Iterator[Edge]:
        """An op that graph passes alone build stands for the op that the pass replaces and that is about the same thing."""
        words = {word for word in op_type.split("_") if len(word) >= _MIN_WORD}
        for path in self.of.tree.containing(op_type, self.of.passes):
            codes = [definition.code for definition in self.of.cpp.definitions(path)]
            if not any(f'OpTypeName ( "{op_type}"' in code for code in codes):
                continue
            replaced = {a or b for code in codes for a, b in _REPLACED.findall(code)}
            for name in sorted(replaced - {op_type}):
                made = any(f'OpTypeName ( "{name}"' in code for code in codes)
                if not made and words & set(name.split("_")):
                    yield Edge(Node("op type", name), f"{path} makes {op_type} of {name}")


def _only_fills(code: str) -> bool:
    """Whether ops are run into tensors that are there already: ``Dispatch(op, inputs, &outputs)``, never ``Dispatch<Tensor>``.

    Both are in oneflow/core/framework/op_interpreter/op_interpreter_util.h.
    """
    return "Dispatch (" in code and "Dispatch <" not in code
