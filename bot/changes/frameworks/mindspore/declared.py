"""What MindSpore's repository declares: primitives, the functions made of op yamls, and Tensor methods."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from bot.changes.frameworks.mindspore.op_yamls import NamedEntry, read_mapping
from bot.changes.index.python_index import PythonIndex
from bot.changes.index.tree import Tree

_OP_YAML: Final = re.compile(
    r"^mindspore/(core/ops/ops_def|ops/op_def/(yaml|func_op|deprecated))/(?!doc/)(?:\w+/)*\w+\.yaml$"
)
_API_YAML: Final = re.compile(r"^mindspore/ops/(api_def|tensor_func_def)/\w+\.yaml$")

GENERATED: Final = "mindspore.ops.auto_generate"
GENERATED_CLASSES: Final = ("", ".gen_ops_prim")
GENERATED_FUNCTIONS: Final = (
    "",
    ".gen_ops_def",
    ".gen_extend_func",
    ".gen_ops_prim",
    ".pyboost_inner_prim",
)
"""Modules that the build writes from op yamls (python/mindspore/ops_generate/gen_constants.py); they are not in the
repository, and are in a release."""
OVERLOADS: Final = "mindspore.ops.functional_overload"

_CLASS: Final = re.compile(r"^class (\w+)\(([\w., ]*)\):", re.MULTILINE)
_REGISTERED_NAME: Final = re.compile(r"__init__\((?:self, *)?(?:name *= *)?[\"'](\w+)[\"']")
_REGISTRY: Final = re.compile(
    r"(?:tensor_operator_registry\.register\(|setattr\(tensor_operator_registry,)\s*[\"'](\w+)[\"'],\s*([\w.]+)\s*\)"
)
_REGISTRY_GET: Final = re.compile(r"tensor_operator_registry\.get\(\s*[\"'](\w+)[\"']")
_METHOD_ROW: Final = re.compile(r'\{"(\w+)",\s*std::string\("(\w+)"\)\}')


def is_op_yaml(path: str) -> bool:
    """Whether a file declares primitives (``softplus_op.yaml``), not their documentation."""
    return _OP_YAML.match(path) is not None and not path.endswith("_doc.yaml")


def is_api_yaml(path: str) -> bool:
    """Whether a file declares Tensor methods and overloaded functions of primitives."""
    return _API_YAML.match(path) is not None


def plain(name: str) -> str:
    """A name in one spelling: ``SoftplusExt``, ``softplus_ext`` and ``softplus_ext_op`` are ``softplus``."""
    name = re.sub(r"(?:_ext|_op|_impl|Ext|V\d{1,9}|_v\d{1,9}|_){1,9}$", "", name.strip("_"))
    return name.replace("_", "").lower()


def camel(name: str) -> str:
    """The class that the build makes of an op's name when its yaml gives none (ops_generate/common/gen_utils.py)."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


@dataclass(frozen=True)
class OpEntry:
    """One op yaml: ``function`` is "" when none is made; ``kernels`` are the names that ``dispatch`` gives.

    ``primitive`` is "" for a deprecated method, of which nothing but a row of an api is made.
    """

    name: str
    file: str
    primitive: str
    function: str
    kernels: frozenset[str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The dotted paths of what the build makes of it."""
        if not self.primitive:
            return ()
        made = [f"{GENERATED}{module}.{self.primitive}" for module in GENERATED_CLASSES]
        names = [self.function] if self.function else []
        names += [f"{self.name}_op", f"{self.name}_impl"]
        return (
            *made,
            *(f"{GENERATED}{module}.{n}" for n in names for module in GENERATED_FUNCTIONS),
        )


@dataclass(frozen=True)
class Api:
    """One api yaml: what it offers, the op yamls that it chooses from, and its Python callbacks."""

    name: str
    is_method: bool
    is_function: bool
    yamls: frozenset[str]  # "max_op.yaml", "deprecated/max_method.yaml"
    callbacks: frozenset[str]
    alias_of: str


def _op_entry(file: str, entry: NamedEntry) -> OpEntry:
    def field(name: str) -> dict[str, Any]:
        value = entry.fields.get(name)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    function, klass, dispatch = field("function"), field("class"), field("dispatch")
    off = str(function.get("disable", "")).lower() == "true"
    kernels = {
        str(v) for k, v in dispatch.items() if k != "enable" and str(v) not in ("None", "default")
    }
    name = str(function.get("name", "")) or entry.name
    primitive = str(klass.get("name", "")) or camel(entry.name)
    if "/deprecated/" in file:
        primitive = ""
    return OpEntry(entry.name, file, primitive, "" if off else name, frozenset(kernels))


def _api(entry: NamedEntry) -> Api:
    offered = {
        word
        for branch in entry.branches
        for word in re.findall(r"\w+", str(branch.get("interface", "tensor")))
    }
    return Api(
        entry.name, "tensor" in offered, "function" in offered,
        frozenset(str(b["op_yaml"]) for b in entry.branches if "op_yaml" in b),
        frozenset(str(b["py_method"]) for b in entry.branches if "py_method" in b),
        str(entry.fields.get("alias", "")),
    )  # fmt: skip


class MindSporeDeclared:
    """The declarations of one tree, read when first asked for."""

    def __init__(self, tree: Tree, python: PythonIndex) -> None:
        self._tree = tree
        self._python = python

    @cached_property
    def ops(self) -> tuple[OpEntry, ...]:
        """Every op yaml's entries."""
        return tuple(
            _op_entry(path, entry)
            for path in self._tree.paths
            if is_op_yaml(path)
            for entry in read_mapping(self._tree.text(path) or "") or ()
        )

    @cached_property
    def by_primitive(self) -> dict[str, tuple[OpEntry, ...]]:
        """Primitive -> its op yamls."""
        found: defaultdict[str, list[OpEntry]] = defaultdict(list)
        for op in self.ops:
            if op.primitive:
                found[op.primitive].append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def by_kernel(self) -> dict[str, str]:
        """Name that an op yaml's ``dispatch`` gives a device's kernel -> primitive."""
        return {kernel: op.primitive for op in self.ops for kernel in op.kernels}

    @cached_property
    def apis(self) -> dict[str, Api]:
        """Every api yaml's entries by name."""
        return {
            entry.name: _api(entry)
            for path in self._tree.paths
            if is_api_yaml(path)
            for entry in read_mapping(self._tree.text(path) or "") or ()
        }

    def apis_of(self, yaml_file: str) -> tuple[str, ...]:
        """The apis that choose from an op yaml."""
        names = {yaml_file.rpartition("/")[2], "/".join(yaml_file.split("/")[-2:])}
        return tuple(name for name, api in self.apis.items() if api.yamls & names)

    @cached_property
    def by_callback(self) -> dict[str, tuple[str, ...]]:
        """Function of ops/tensor_method.py -> apis."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, api in self.apis.items():
            for callback in api.callbacks:
                found[callback].append(name)
        return {callback: tuple(names) for callback, names in found.items()}

    @cached_property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """Primitive -> dotted paths of the Python classes that make it."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for module, path in self._python.modules.items():
            if not (
                module.startswith("mindspore.ops.operations") or module == "mindspore.scipy.ops"
            ):
                continue
            text = self._tree.text(path) or ""
            starts = list(_CLASS.finditer(text))
            ends = [match.start() for match in starts[1:]] + [len(text)]
            for match, end in zip(starts, ends[: len(starts)], strict=True):
                if not re.search(r"Prim|\b_[A-Z]|Base", match[2]):
                    continue
                body = text[match.end() : end]
                names = {match[1], *_REGISTERED_NAME.findall(body)[:1]}
                for name in names:
                    found[name].append(f"{module}.{match[1]}")
        return {name: tuple(paths) for name, paths in found.items()}

    @cached_property
    def by_class(self) -> dict[str, tuple[str, ...]]:
        """Dotted path of a Python class, or of what the build makes of an op yaml -> primitives."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for name, paths in self.classes.items():
            for path in paths:
                found[path][name] = None
        for op in self.ops:
            for path in op.paths:
                found[path][op.primitive] = None
        return {path: tuple(names) for path, names in found.items()}

    @cached_property
    def primitives(self) -> frozenset[str]:
        """Every primitive that an op yaml or a Python class makes."""
        return frozenset(self.classes) | frozenset(self.by_primitive)

    @cached_property
    def _spelled(self) -> dict[str, str]:
        return {name.lower(): name for name in sorted(self.primitives)}

    def primitive(self, word: str) -> str:
        """The primitive that a word of C++ means: its name, ``kPrimX``, ``kNameX``, ``kX``, ``kXOpName``; "" for none."""
        if word in self.primitives:
            return word
        stem = re.sub(r"^k(Prim|Name)?(?=[A-Z])", "", word).removesuffix("OpName")
        if stem == word:
            return ""
        return stem if stem in self.primitives else self._spelled.get(stem.lower(), "")

    def paths(self, primitive: str) -> tuple[str, ...]:
        """The dotted Python paths by which a primitive is made."""
        made = [path for op in self.by_primitive.get(primitive, ()) for path in op.paths]
        return tuple(dict.fromkeys([*self.classes.get(primitive, ()), *made]))

    @cached_property
    def registry(self) -> dict[str, tuple[str, ...]]:
        """Dotted path -> the Tensor methods that get it from ``tensor_operator_registry`` (ops/functional.py)."""
        module = "mindspore.ops.functional"
        text = self._tree.text(self._python.modules.get(module, "")) or ""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for key, written in _REGISTRY.findall(text):
            path = self._python.resolve(module, written)
            found[path] += self.methods_by_key.get(key, ())
        return {path: tuple(dict.fromkeys(methods)) for path, methods in found.items()}

    @cached_property
    def methods_by_key(self) -> dict[str, tuple[str, ...]]:
        """Key of ``tensor_operator_registry`` -> the Tensor methods that are made of it alone, or are named like it."""
        module = "mindspore.common.tensor"
        text = self._tree.text(self._python.modules.get(module, "")) or ""
        lines = text.splitlines()
        found: defaultdict[str, list[str]] = defaultdict(list)
        for definition in self._python.file(module).definitions:
            owner, _, method = definition.name.rpartition(".")
            if owner != "Tensor":
                continue
            body = "\n".join(lines[definition.first - 1 : definition.last])
            keys = set(_REGISTRY_GET.findall(body))
            for key in keys:
                if len(keys) == 1 or plain(key) == plain(method):
                    found[key].append(method)
        return {key: tuple(methods) for key, methods in found.items()}

    @cached_property
    def tensor_methods(self) -> frozenset[str]:
        """The names of Tensor's methods."""
        own = {
            d.name.removeprefix("Tensor.")
            for d in self._python.file("mindspore.common.tensor").definitions
            if d.name.startswith("Tensor.")
        }
        return frozenset(own | {name for name, api in self.apis.items() if api.is_method})

    @cached_property
    def graph_methods(self) -> dict[str, tuple[str, ...]]:
        """Function of _extends/parse/standard_method.py -> the Tensor methods that it is in graph mode."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._tree.paths:
            if path.startswith("mindspore/ccsrc/") and path.endswith("/resource.cc"):
                for method, function in _METHOD_ROW.findall(self._tree.text(path) or ""):
                    if method in self.tensor_methods:
                        found[function].append(method)
        return {function: tuple(dict.fromkeys(methods)) for function, methods in found.items()}
