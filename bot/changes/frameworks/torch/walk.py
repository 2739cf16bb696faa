"""PyTorch's edges from native functions to public names, and where a walk begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.torch.cpp import TorchCpp, cpp_node
from bot.changes.frameworks.torch.declared import (
    CWRAP,
    DERIVATIVES,
    NATIVE_YAMLS,
    OUT_OF_TREE,
    SCHEMA_NAME,
    NativeFunction,
    TorchDeclared,
    backends,
    convolutions,
    is_private,
)
from bot.changes.frameworks.torch.natives import NativeTable
from bot.changes.graph import Edge, Node
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Note, Tree
from bot.changes.op_names import torch_names
from bot.changes.python_walk import PythonWalk
from bot.programs.op_groups import group_of

CPP_FOLDERS: Final = (
    "aten/src/", "torch/csrc/autograd/", "torch/csrc/utils/", "tools/autograd/templates/", "c10/util/", "c10/core/",
    "src/", "torch_npu/csrc/", "op_plugin/", "csrc/",
)  # fmt: skip
FRONTEND: Final = "torch/csrc/api/"
_ENGINE: Final = re.compile(
    r"torch/csrc/autograd/(?!FunctionsManual|VariableTypeManual|python_(variable|\w*_functions|torch_functions|\w*_function\b)|utils/)"
)
"""The autograd engine, which every op goes through, as opposed to the formulas and bindings of single ops."""

REFERENCES: Final = "torch._refs."
ATEN_DECORATORS: Final = frozenset(
    {
        "register_decomposition", "register_meta", "register_lowering", "impl", "py_impl",
        "elementwise_type_promotion", "register_inference_rule", "register_op_impl", "register_jagged_func",
        "register_prop_rule", "_register_jit_decomposition_for_jvp", "register_nop", "register_pointwise",
    }
)  # fmt: skip
"""Decorators that name the ATen ops a function stands for (torch/_decomp, _meta_registrations, _inductor)."""

REGISTERED_MODULES: Final = ("torch._refs", "torch._decomp", "torch._prims", "torch._meta", "torch._inductor",
                                   "torch.nn.utils._expanded_weights")  # fmt: skip
"""Modules whose functions stand for ops by registration, and call others as composites do."""

MODULE_NAMESPACES: Final = {"nn": "_nn", "linalg": "_linalg", "fft": "_fft", "special": "_special", "sparse": "_sparse",
                            "nested": "_nested"}  # fmt: skip
"""``python_module`` of a yaml entry -> the namespace of ``torch._C`` that holds its binding."""

MAX_CALLERS: Final = 12  # callers of a private native function that are taken for its own
MAX_PYTHON_CALLERS: Final = 4
FEW_WRAPPED: Final = 2  # functional's wrappers of one function of torch, by another name


class TorchReader:
    """One tree through PyTorch's rules; ``note`` is told what the walk leaves out."""

    def __init__(
        self, tree: Tree, python: PythonWalk, sources: tuple[str, ...], note: Note
    ) -> None:
        self.tree = tree
        self.note = note
        self.python = python
        self.declared = TorchDeclared(tree)
        self.cpp = TorchCpp(CppIndex(tree, sources, note), self.declared, note)

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed definition begins, or why none is possible."""
        path = definition.file
        if path.endswith((".py", ".pyi")):
            if definition.name in backends().quiet_functions.names:
                return ""
            if definition.kind == "class" and definition.name == "Tensor":
                return "the body of class Tensor: any op may be changed"
            if definition.kind == "import" and any(
                u.startswith("torch.overrides") for u in definition.uses
            ):
                return ""  # how a function tells that it may be overridden, which changes no value
            start = self.python.start(definition, added)
            statement = definition.kind == "statement" and tuple(self._aten_names(definition.uses))
            return (
                Node("python statement", definition.place, path, definition) if statement else start
            )
        if path == CWRAP:
            return Node("legacy", definition.name)
        if path in NATIVE_YAMLS or path in DERIVATIVES or OUT_OF_TREE.search(path):
            match = SCHEMA_NAME.match(definition.name)
            return Node("native", match[1] if match else definition.name)
        if path.startswith(FRONTEND):
            return ""  # the C++ frontend: no op of Python is made of it
        if _ENGINE.match(path):
            return "the autograd engine: any op may be changed"
        if "/xccl/" in path:
            return "collective communication: no op of one device"
        if not path.startswith(CPP_FOLDERS):
            return "C++ outside ATen and autograd"
        return cpp_node(definition)

    def successors(self, node: Node) -> Iterable[Edge]:
        """What a change of the node changes next."""
        if node.kind == "native":
            return self._of_native(node.name)
        if node.kind == "stub":
            return self.cpp.of_stub(node.name)
        if node.kind == "legacy":
            served = self.declared.served(node.name)
            return [
                Edge(Node("native", base), f"{node.name} is a kernel of {base}") for base in served
            ]
        if node.kind == "cpp" and node.definition is not None:
            return self.cpp.successors(node.definition)
        if node.kind == "wrapper":
            return self._of_wrapper(node)
        if node.kind == "python statement" and node.definition is not None:
            return [
                Edge(Node("native", base), f"{node.definition.place} registers aten::{base}")
                for base in self._aten_names(node.definition.uses)
            ]
        if node.kind == "python":
            return (*self._aten(node), *self._of_python(node))
        return self.python.successors(node)

    def _of_python(self, node: Node) -> Iterator[Edge]:
        """Python's own edges, but for those that leave a method of Tensor for all who name Tensor."""
        if "torch.Tensor" in self.python.index.aliases.get(node.name, ()):
            return
        names = self.python.aliases(node.name)
        if any(name.startswith("torch.Tensor.") for name in names):
            yield from (Edge(Node("public", name), f"{name} is {node.name}") for name in names)
            return
        for edge in self.python.successors(node):
            if not _apart(edge.target.name) or _apart(node.name):
                yield edge

    # Python that stands for native functions

    def _aten_names(self, names: Iterable[str]) -> Iterator[str]:
        for name in sorted(names):
            match = re.match(r"(?:torch\.ops\.)?aten\.(\w+)", name)
            if match and self.declared.is_native(match[1]):
                yield match[1]

    def _aten(self, node: Node) -> Iterator[Edge]:
        """Reference and decomposition functions stand for ops that they do not call."""
        if node.name.startswith(REFERENCES):
            name = node.name.removeprefix(REFERENCES)
            if name in torch_names():
                step = f"{node.name} is the reference of torch.{name}"
                yield Edge(Node("public", f"torch.{name}"), step)
        module, name = self.python.index.split(node.name)
        for decorated, decorator, arguments in self.python.index.file(module).decorators:
            if decorated != name or decorator.rpartition(".")[2] not in ATEN_DECORATORS:
                continue
            for argument in arguments:
                base = re.sub(r"^(torch\.ops\.)?aten\.|^aten::", "", argument).split(".")[0]
                step = f"{name} is registered for aten::{base}"
                if self.declared.is_native(base):
                    yield Edge(Node("native", base), step)
                elif base != argument and not self.declared.own and base in torch_names():
                    yield Edge(Node("public", f"torch.{base}"), step)

    # Native functions

    def _of_native(self, base: str) -> Iterator[Edge]:
        if self.declared.table is not None:
            yield from self._of_table(base)
            return
        edges = [*self._bindings(base), *self._convolutions(base)]
        yield from edges
        private = is_private(base) or self.declared.undocumented(base)
        if self.declared.undocumented(base):
            edges = [edge for edge in edges if edge.target.name != f"torch.{base}"]
            private = not edges
        if private or not edges:
            derived = [f for f in self.declared.derived.get(base, ()) if f != base]
            more = [
                Edge(Node("native", forward), f"derivatives.yaml: {forward} uses {base}")
                for forward in derived
            ]
            if not convolutions(base):
                more += self._callers(base, bool(edges))
            yield from more
            if not edges and not more:
                yield from self._itself(base)
        else:
            self.note(f"composites that call {base} in C++ are not followed: it is tested itself")

    def _of_table(self, base: str) -> Iterator[Edge]:
        """The names that a released PyTorch has for a native function, in a tree that does not hold them."""
        table = self.declared.table
        native = table.natives.get(base) if table is not None else None
        if table is None or native is None:
            yield from self._itself(base)
            return
        names = (*native.public, *backends().callers.of(base))
        if not any(self._leads_on(table, name) for name in names):
            yield from self._itself(base)
        for name in names:
            if name != base and name in table.natives and is_private(name):
                step = f"{name} is made of {base} ({table.source})"
                yield Edge(Node("native", name), step, "backward" in base)
                continue
            yield Edge(
                Node("public", f"torch.{name}"), f"torch.{name} is made of {base} ({table.source})"
            )
        for name in native.through:
            step = f"torch.{name} calls an op that is made of {base} ({table.source})"
            yield Edge(Node("public", f"torch.{name}"), step, False)

    def _leads_on(self, table: NativeTable, name: str) -> bool:
        """Whether a name in the table is one that users call, or a private one that leads to such."""
        private = name in table.natives and is_private(name)
        return not private or bool(table.natives[name].public or backends().callers.of(name))

    def _itself(self, base: str) -> Iterator[Edge]:
        """A native function that no public one reaches is an op by its own name."""
        modules = {native.module for native in self.declared.by_base.get(base, ())}
        for module in sorted(modules or {""}):
            space = (
                f"torch._C.{MODULE_NAMESPACES.get(module, '_' + module)}." if module else "torch."
            )
            yield Edge(Node("public", space + base), f"no public op is known to use {base}")

    def _convolutions(self, base: str) -> Iterator[Edge]:
        for alias in convolutions(base):
            yield Edge(Node("public", alias), f"{base} computes convolutions")

    def _bindings(self, base: str) -> Iterator[Edge]:
        natives = self.declared.by_base.get(base, [])
        modules = {native.module for native in natives}
        variants = {variant for native in natives for variant in native.variants}
        private = is_private(base)
        if not private and "function" in variants and "" in modules:
            yield Edge(Node("public", f"torch.{base}"), f"torch.{base} is the function variant")
        if not private and "method" in variants:
            step = f"torch.Tensor.{base} is the method variant"
            yield Edge(Node("public", f"torch.Tensor.{base}"), step)
        if not private and "method" in variants:
            yield from self._functional(base)
        for module in sorted(m for m in modules if m):
            path = f"torch._C.{MODULE_NAMESPACES.get(module, module)}.{base}"
            yield from self._python_callers(path, natives, every=True)
        if "" in modules or not natives:
            for path in (f"torch._VF.{base}", f"torch._C._VariableFunctions.{base}"):
                yield from self._python_callers(path, natives, every=True)
            yield from self._python_callers(f"torch.{base}", natives, every=private)

    def _functional(self, base: str) -> Iterator[Edge]:
        """The function of ``nn.functional`` that calls the method of its own name (``softmax``)."""
        path = f"torch.nn.functional.{base}"
        for definition in self.python.index.definitions(path):
            if any(used.endswith(f".{base}") for used in definition.uses):
                step = f"{path} calls the method {base}"
                yield Edge(Node("wrapper", path, definition=definition), step)

    def _python_callers(
        self, path: str, natives: list[NativeFunction], every: bool
    ) -> Iterator[Edge]:
        """Python functions that are a binding under another name, and (``every``) those that only call it."""
        users = [
            edge
            for edge in self.python.users(path, public=False)
            if not edge.target.name.startswith(REGISTERED_MODULES)
        ]
        plainly = [edge for edge in users if ".quantized." not in edge.target.name]
        users = plainly or users  # the quantized form of an op is another op
        base = path.rpartition(".")[2]
        plain = {base, base.strip("_"), base.rstrip("_")}
        functional = [e for e in users if e.target.name.startswith("torch.nn.functional.")]
        method = any("method" in native.variants for native in natives)
        wrapped = len(functional) <= FEW_WRAPPED and not method and len(users) <= MAX_PYTHON_CALLERS
        for edge in users:
            definition = edge.target.definition
            last = edge.target.name.rpartition(".")[2]
            same = last in plain or (definition is not None and definition.kind == "assignment")
            few = every and len(users) <= MAX_PYTHON_CALLERS
            if same or few or (wrapped and edge in functional):
                yield Edge(Node("wrapper", edge.target.name, definition=definition), edge.step)
        if every and len(users) > MAX_PYTHON_CALLERS:
            self.note(
                f"{path} has {len(users)} users in Python: those that only call it are not followed"
            )

    def _of_wrapper(self, node: Node) -> Iterator[Edge]:
        """A Python function that only hands over to a native one: its public names, its module, and its few users."""
        path = node.name
        names = self.python.aliases(path)
        yield from (Edge(Node("public", alias), f"{alias} is {path}") for alias in names)
        _, name = self.python.index.split(path)
        if not names or "." in name:
            edges = self.python.successors(Node("python", path, definition=node.definition))
            yield from (edge for edge in edges if not _apart(edge.target.name) or _apart(path))
            return
        groups = {group_of(alias.removeprefix("torch.")) for alias in names}
        users = [e for e in self.python.users(path, public=False) if not _apart(e.target.name)]
        for edge in users:
            owner = edge.target.name.rpartition(".")[0]
            theirs = {
                group_of(alias.removeprefix("torch."))
                for alias in (*self.python.aliases(owner), *self.python.aliases(edge.target.name))
            }
            definition = edge.target.definition
            assigned = definition is not None and definition.kind == "assignment"
            if assigned or theirs & groups:
                yield Edge(Node("wrapper", edge.target.name, definition=definition), edge.step)
            elif len(users) <= MAX_PYTHON_CALLERS:
                yield Edge(
                    Node("wrapper", edge.target.name, definition=definition), edge.step, False
                )

    def _callers(self, base: str, public: bool) -> Iterator[Edge]:
        """ATen functions that call a native function which users do not."""
        found = self.cpp.callers(base)
        few = len(found) <= MAX_CALLERS and not public
        for definition in found:
            # A kernel that computes an op out of others, in PyTorch's naming (math_native_layer_norm).
            composite = definition.name.rpartition("::")[2].startswith("math_")
            step = f"{definition.place} calls {base}"
            yield Edge(cpp_node(definition), step, few and not composite)


def _apart(path: str) -> bool:
    """Whether a Python name is of quantized tensors, whose ops are others, or of per-sample gradients."""
    return ".quantized." in path or "._expanded_weights." in path


def is_source(path: str) -> bool:
    """Whether a C++ file is one that ops are made of."""
    return path.startswith(CPP_FOLDERS) and "/test/" not in path and _ENGINE.match(path) is None
