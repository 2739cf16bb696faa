"""PyTorch's rules: yaml entries, dispatch stubs, structured kernels, derivatives, references and Python."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from bot.changes.definition import Definition
from bot.changes.graph import Edge, Node
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.python_index import PythonIndex, PythonLayout
from bot.changes.index.tree import Note, Tree
from bot.changes.op_names import torch_names
from bot.changes.python_walk import PythonRules, PythonWalk
from bot.changes.roles import CPP_SUFFIXES, shared_role
from bot.changes.rules import Reader, Role
from bot.changes.sources.cpp_source import read_cpp, tokenize
from bot.changes.sources.python_source import read_python
from bot.changes.sources.yaml_entries import entry_definitions, read_entries

LAYOUT: Final = PythonLayout(
    package="torch",
    roots=("",),
    public=(
        "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn", "torch.nn.init", "torch",
        "torch.signal.windows", "torch.sparse", "torch.nested", "torch.nn.utils", "torch.nn.utils.rnn",
    ),
    ignored=("/testing/", "/_docs", "_docs.py", "/test/", "torch/_dynamo/", "torch/onnx/", "torch/distributed/"),
    searched=(
        "torch!", "torch.functional", "torch._tensor", "torch._VF", "torch._lobpcg", "torch._lowrank",
        "torch._linalg_utils", "torch._jit_internal", "torch._prims", "torch._prims_common", "torch._refs",
        "torch._decomp", "torch._meta_registrations", "torch._inductor.lowering", "torch.nn", "torch.linalg",
        "torch.fft", "torch.special", "torch.signal", "torch.sparse", "torch.nested", "torch.masked",
    ),
)  # fmt: skip

PYTHON_RULES: Final = PythonRules(
    tensor_class="torch.Tensor",
    not_ops=(
        "torch.Tensor", "torch.nn.Module", "torch.nn.Parameter", "torch.nn.Sequential", "torch.nn.ModuleList",
        "torch.nn.ModuleDict", "torch.nn.ParameterList", "torch.nn.ParameterDict", "torch.save", "torch.load",
        "torch.manual_seed", "torch.set_printoptions", "torch.compile", "torch.classes", "torch.ops",
    ),
)  # fmt: skip
"""``not_ops``: containers, state and set-up (torch/nn/modules/{module,container}.py, torch/__init__.py)."""

NATIVE_YAML: Final = "aten/src/ATen/native/native_functions.yaml"
NATIVE_YAMLS: Final = (NATIVE_YAML, "torchgen/packaged/ATen/native/native_functions.yaml",
                       "yaml/native/native_functions.yaml")  # fmt: skip
DERIVATIVES: Final = (
    "tools/autograd/derivatives.yaml",
    "torchgen/packaged/autograd/derivatives.yaml",
)
NATIVE: Final = "aten/src/ATen/native/"
CPP_FOLDERS: Final = ("aten/src/ATen/", "torch/csrc/autograd/", "src/ATen/", "c10/util/")

REFERENCES: Final = "torch._refs."
ATEN_DECORATORS: Final = frozenset(
    {
        "register_decomposition",
        "register_meta",
        "register_lowering",
        "impl",
        "py_impl",
        "elementwise_type_promotion",
    }
)
"""Decorators that name the ATen ops a function stands for (torch/_decomp, _meta_registrations, _inductor)."""

MODULE_NAMESPACES: Final = {"nn": "_nn", "linalg": "_linalg", "fft": "_fft", "special": "_special", "sparse": "_sparse",
                            "nested": "_nested"}  # fmt: skip
"""``python_module`` of a yaml entry -> the namespace of ``torch._C`` that holds its binding."""

CONVOLUTIONS: Final = tuple(
    f"torch.nn.functional.conv{transpose}{n}d"
    for transpose in ("", "_transpose")
    for n in (1, 2, 3)
)
CONVOLUTION_FILES: Final = re.compile(
    r"native/(mkldnn|xnnpack|cudnn|miopen|mps/operations)/(\w+/)*\w*Conv\w*\.\w+$"
)
CONVOLUTION_OPS: Final = re.compile(
    r"^_?(\w+_)?convolution(_\w+)?$|^_?(slow|thnn|mkldnn|cudnn)_?conv\w*$"
)
"""Backends of convolution have no yaml link: they are chosen at run time in aten/src/ATen/native/Convolution.cpp."""

_SCHEMA_NAME: Final = re.compile(r"\s*(?:\w+::)?(\w+)(?:\.(\w+))?")
_IMPL: Final = re.compile(r"\bTORCH_IMPL_FUNC \( (\w+) \)")
_META: Final = re.compile(r"\bTORCH_(?:PRECOMPUTE_)?META_FUNC2? \( (\w+)")
_STUB: Final = re.compile(r"\b(?:REGISTER_\w*DISPATCH\w*|DEFINE_DISPATCH|DECLARE_DISPATCH)\b")
_STUB_NAME: Final = re.compile(r"\b(\w+(?:_stub|_fn|_kernel|Stub))\b")
MAX_PUBLIC_CALLERS: Final = 4


@dataclass(frozen=True)
class TorchRules:
    """PyTorch's repository (``aten/``, ``torch/``) or its installed release (``torch/``)."""

    name: str = "torch"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is PyTorch's."""
        return any(path in tree.path_set for path in ("torch/nn/functional.py", *NATIVE_YAMLS))

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if path in NATIVE_YAMLS or path in DERIVATIVES:
            return "source"
        if path.endswith(("_docs.py", "_torch_docs.py", "_tensor_docs.py")):
            return "documentation"
        return shared_role(path)

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path.endswith((".py", ".pyi")):
            file = read_python(path, text, path.rsplit(".", 1)[0].replace("/", "."))
            return None if file is None else file.definitions
        if path.endswith(".yaml"):
            return entry_definitions(path, text, "func" if path in NATIVE_YAMLS else "name")
        return read_cpp(path, text)

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked."""
        return _TorchReader(tree, note)


@dataclass(frozen=True)
class NativeFunction:
    """One entry of native_functions.yaml."""

    base: str  # "softplus_backward"
    overload: str  # "grad_input"
    kernels: frozenset[str]  # C++ functions that serve it
    module: str  # python_module
    variants: frozenset[str]


def _native(values: dict[str, Any]) -> NativeFunction:
    match = _SCHEMA_NAME.match(str(values.get("func", "")))
    base, overload = (match[1], match[2] or "") if match else ("", "")
    dispatch = values.get("dispatch")
    kernels: set[str] = set()
    if isinstance(dispatch, dict):
        kernels = {str(kernel).rpartition("::")[2] for kernel in dispatch.values()}  # type: ignore[union-attr]
    elif "structured_delegate" not in values:
        kernels = {base, f"{base}_out"} if overload.endswith("out") else {base}
    kernels |= {kernel.removesuffix("_symint") for kernel in kernels}
    variants = str(values.get("variants", "function")).replace(" ", "").split(",")
    module = str(values.get("python_module", ""))
    return NativeFunction(base, overload, frozenset(kernels), module, frozenset(variants))


class _TorchReader:
    def __init__(self, tree: Tree, note: Note) -> None:
        self.tree = tree
        self.note = note
        self.python = PythonWalk(PythonIndex(tree, LAYOUT, note), PYTHON_RULES, note)
        sources = tuple(
            path
            for path in tree.paths
            if path.startswith(CPP_FOLDERS)
            and "." + path.rpartition(".")[2] in CPP_SUFFIXES
            and "/test/" not in path
        )
        self.cpp = CppIndex(tree, sources, note)
        self.native_paths = tuple(p for p in sources if "/native/" in p)

    @cached_property
    def natives(self) -> tuple[NativeFunction, ...]:
        """Every entry of the native functions' yaml files."""
        return tuple(
            _native(entry.values)
            for path in NATIVE_YAMLS
            for entry in read_entries(self.tree.text(path) or "") or ()
        )

    @cached_property
    def by_base(self) -> dict[str, list[NativeFunction]]:
        """Name without overload -> entries."""
        found: defaultdict[str, list[NativeFunction]] = defaultdict(list)
        for native in self.natives:
            found[native.base].append(native)
        return dict(found)

    @cached_property
    def by_kernel(self) -> dict[str, tuple[str, ...]]:
        """C++ function -> names of the entries that it serves."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for native in self.natives:
            for kernel in native.kernels:
                found[kernel][native.base] = None
        return {kernel: tuple(bases) for kernel, bases in found.items()}

    @cached_property
    def derivatives(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """(forward op, every name in its formulas)."""
        found: list[tuple[str, frozenset[str]]] = []
        for path in DERIVATIVES:
            for entry in read_entries(self.tree.text(path) or "") or ():
                match = _SCHEMA_NAME.match(str(entry.values.get("name", "")))
                formulas = {key: value for key, value in entry.values.items() if key != "name"}
                found.append(
                    (match[1] if match else "", frozenset(re.findall(r"\w+", str(formulas))))
                )
        return tuple(found)

    def start(self, definition: Definition, added: bool) -> Node | str:
        path = definition.file
        if path.endswith((".py", ".pyi")):
            return self.python.start(definition, added)
        if path in NATIVE_YAMLS or path in DERIVATIVES:
            match = _SCHEMA_NAME.match(definition.name)
            return Node("native", match[1] if match else definition.name)
        if not path.startswith(CPP_FOLDERS):
            return "C++ outside ATen and autograd"
        return self._cpp_node(definition)

    def _cpp_node(self, definition: Definition) -> Node:
        unique = definition.kind in ("statement", "entry", "macro") or "TORCH_" in definition.name
        name = f"{definition.name}@{definition.first}" if unique else definition.name
        return Node("cpp", name, definition.file, definition)

    def successors(self, node: Node) -> Iterable[Edge]:
        if node.kind == "native":
            return self._of_native(node.name)
        if node.kind == "stub":
            return self._of_stub(node.name)
        if node.kind == "cpp" and node.definition is not None:
            return self._of_cpp(node.definition)
        if node.kind == "python":
            return (*self._aten(node), *self.python.successors(node))
        return self.python.successors(node)

    def _aten(self, node: Node) -> Iterator[Edge]:
        """Reference and decomposition functions stand for ops that they do not call."""
        if node.name.startswith(REFERENCES):
            name = node.name.removeprefix(REFERENCES)
            if name in torch_names():
                yield Edge(
                    Node("public", f"torch.{name}"), f"{node.name} is the reference of torch.{name}"
                )
        module, name = self.python.index.split(node.name)
        for decorated, decorator, arguments in self.python.index.file(module).decorators:
            if decorated != name or decorator.rpartition(".")[2] not in ATEN_DECORATORS:
                continue
            for argument in arguments:
                base = re.sub(r"^(torch\.ops\.)?aten\.|^aten::", "", argument).split(".")[0]
                if base in self.by_base:
                    yield Edge(Node("native", base), f"{name} is registered for aten::{base}")
                elif base != argument and not self.natives and base in torch_names():
                    yield Edge(
                        Node("public", f"torch.{base}"), f"{name} is registered for aten::{base}"
                    )

    def _of_cpp(self, definition: Definition) -> Iterator[Edge]:
        for kernel in _IMPL.findall(definition.code):
            yield from self._serves(kernel, definition)
        for base in _META.findall(definition.code):
            yield Edge(Node("native", base), f"{definition.place} is the meta function of {base}")
        if CONVOLUTION_FILES.search(definition.file):
            for alias in CONVOLUTIONS:
                yield Edge(Node("public", alias), f"{definition.file} is a backend of convolution")
        if definition.kind in ("statement", "entry"):
            yield from self._of_statement(definition)
            return
        name = definition.name.rpartition("::")[2]
        yield from self._serves(name, definition)
        for base, names in self.derivatives:
            if name in names and definition.file.startswith("torch/csrc/autograd/"):
                yield Edge(Node("native", base), f"derivatives.yaml: {base} uses {name}")
        if "TORCH_" in name:
            return
        if len(name) < 3:
            self.note(f"{definition.place}: users of so short a name are not looked for")
            return
        users = list(self.cpp.users(name, definition.file))
        few = len({user.file for user in users}) <= 3
        for user in users:
            yield Edge(
                self._cpp_node(user),
                f"{user.place} uses {name}",
                few or user.file == definition.file,
            )

    def _serves(self, kernel: str, definition: Definition) -> Iterator[Edge]:
        if "/native/" not in definition.file:
            return
        for base in self.by_kernel.get(kernel, ()):
            yield Edge(
                Node("native", base), f"{definition.place} is a kernel of {base} ({NATIVE_YAML})"
            )

    def _of_statement(self, definition: Definition) -> Iterator[Edge]:
        tokens = tokenize(definition.code)
        if _STUB.search(definition.code):
            for stub in _STUB_NAME.findall(definition.code)[:1]:
                yield Edge(Node("stub", stub), f"{definition.place} registers {stub}")
        if definition.kind == "entry" and tokens.texts and "impl" in tokens.names:
            match = _SCHEMA_NAME.match(tokens.texts[0])
            if match and match[1] in self.by_base:
                yield Edge(
                    Node("native", match[1]), f"{definition.place} implements aten::{match[1]}"
                )

    def _of_stub(self, stub: str) -> Iterator[Edge]:
        for definition in self.cpp.naming(stub, self.native_paths):
            if not _STUB.search(definition.code) and definition.name != stub:
                yield Edge(self._cpp_node(definition), f"{definition.place} calls {stub}")

    def _of_native(self, base: str) -> Iterator[Edge]:
        natives = self.by_base.get(base, [])
        public = False
        for edge in self._bindings(base, natives):
            public = public or edge.target.kind == "public" or edge.direct
            yield edge
        if CONVOLUTION_OPS.match(base):
            public = True
            for alias in CONVOLUTIONS:
                yield Edge(Node("public", alias), f"{base} computes convolutions")
        backward = "backward" in base
        for forward, names in self.derivatives:
            if base in names and forward != base and (backward or not public):
                public = public or backward
                yield Edge(Node("native", forward), f"derivatives.yaml: {forward} uses {base}")
        if base.startswith("_") or not public:
            yield from self._callers(base, public)
        else:
            self.note(f"composites that call {base} in C++ are not followed: it is tested itself")

    def _bindings(self, base: str, natives: list[NativeFunction]) -> Iterator[Edge]:
        modules = {native.module for native in natives}
        variants = {variant for native in natives for variant in native.variants}
        paths = [
            f"torch._C.{MODULE_NAMESPACES.get(module, module)}.{base}"
            for module in modules
            if module
        ]
        if "" in modules or not natives:
            paths += [f"torch.{base}", f"torch._VF.{base}", f"torch._C._VariableFunctions.{base}"]
            if "function" in variants and not base.startswith("_") and "backward" not in base:
                yield Edge(Node("public", f"torch.{base}"), f"torch.{base} is the function variant")
        if "method" in variants and not base.startswith("_"):
            yield Edge(
                Node("public", f"torch.Tensor.{base}"), f"torch.Tensor.{base} is the method variant"
            )
        for path in paths:
            users = list(self.python.users(path, public=False))
            if len(users) > MAX_PUBLIC_CALLERS:
                self.note(
                    f"{path} has {len(users)} users in Python: those that only call it are not followed"
                )
            plain = path.rpartition(".")[2]
            for edge in users:
                same = edge.target.name.rpartition(".")[2] in (plain, plain.removeprefix("_"))
                bound = (
                    edge.target.definition is not None
                    and edge.target.definition.kind == "assignment"
                )
                if same or bound or len(users) <= MAX_PUBLIC_CALLERS:
                    yield Edge(edge.target, edge.step, same or bound or base.startswith("_"))

    def _callers(self, base: str, public: bool) -> Iterator[Edge]:
        """ATen functions that call an op which users do not."""
        pattern = re.compile(
            rf"\b(?:at|native|redispatch) :: (?:symint :: )?{re.escape(base)}(?:_symint|_out)?\b"
        )
        found = [
            definition
            for definition in self.cpp.naming(base, self.native_paths)
            if pattern.search(definition.code) and definition.name.rpartition("::")[2] != base
        ]
        for definition in found:
            yield Edge(self._cpp_node(definition), f"{definition.place} calls {base}", not public)
