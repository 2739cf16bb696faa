"""What a tree of PyTorch declares: native functions with their kernels, derivatives, legacy wrappers and backends."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict

from bot.changes.frameworks.torch.natives import NativeTable, native_table
from bot.changes.index.tree import Tree
from bot.changes.sources.text_lines import TextLines
from bot.changes.sources.yaml_entries import read_entries
from bot.changes.table_file import read_table

NATIVE_YAML: Final = "aten/src/ATen/native/native_functions.yaml"
PACKAGED_YAML: Final = "torchgen/packaged/ATen/native/native_functions.yaml"
NATIVE_YAMLS: Final = (NATIVE_YAML, PACKAGED_YAML)
DERIVATIVES: Final = (
    "tools/autograd/derivatives.yaml",
    "torchgen/packaged/autograd/derivatives.yaml",
)
CWRAP: Final = "aten/src/ATen/Declarations.cwrap"
"""TH's functions and the names by which ATen calls them, in trees before 1.9."""

OUT_OF_TREE: Final = re.compile(
    r"(^|/)(yaml/native/native_functions|\w*native_functions|xpu_functions|op_plugin_functions)\.yaml$"
)
"""Yaml files of out-of-tree backends: torch-xpu-ops, torch_npu (``npu_native_functions.yaml``) and its op-plugin."""

SCHEMA_NAME: Final = re.compile(r"^\s*(?:\w+::)?(\w+)(?:\.(\w+))?")
_CWRAP_BLOCK: Final = re.compile(r"\[\[(?:(?!\[\[).)*?\]\]", re.DOTALL)
_CWRAP_NAME: Final = re.compile(r"^[^\S\n]*(name|cname): (\w+)", re.MULTILINE)


class _Files(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    files: dict[str, tuple[str, ...]]

    def of(self, path: str) -> tuple[str, ...]:
        """The private native functions that a file of a backend computes; none for other files."""
        return next((names for part, names in self.files.items() if re.search(part, path)), ())


class _Private(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    pattern: str
    public: str


class _Indexing(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    methods: dict[str, str]


class _Names(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    names: tuple[str, ...]


class _Callers(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    patterns: dict[str, str]

    def of(self, base: str) -> tuple[str, ...]:
        """The public names that call a private native function."""
        return tuple(name for pattern, name in self.patterns.items() if re.fullmatch(pattern, base))


class Backends(BaseModel):
    """The file ``backends.yml``: edges and names that no declaration of PyTorch states."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    files: _Files
    private: _Private
    indexing: _Indexing
    callers: _Callers
    quiet_functions: _Names
    backends: _Names


@cache
def backends() -> Backends:
    """The rows of ``backends.yml``."""
    return read_table("bot.changes.frameworks.torch", "backends.yml", Backends)


@cache
def _private() -> tuple[re.Pattern[str], re.Pattern[str]]:
    rows = backends().private
    return re.compile(re.sub(r"\s", "", rows.pattern)), re.compile(rows.public)


def is_private(base: str) -> bool:
    """Whether users do not call a native function by its own name, but through others."""
    pattern, public = _private()
    return pattern.search(base) is not None and public.search(base) is None


def convolutions(base: str) -> tuple[str, ...]:
    """The public convolutions that a private native function computes (``slow_conv_transpose2d``); mostly none."""
    if not is_private(base) or not re.search(r"(^|_)conv(olution)?(_|\d|$)", base):
        return ()
    digits = re.search(r"(\d)d", base)
    dimensions = (digits[1],) if digits else ("2",) if "depthwise" in base else ("1", "2", "3")
    general = re.fullmatch(r"_?convolution(_\w+)?", base) is not None
    transposes = (
        ("", "_transpose") if general else ("_transpose",) if "transpose" in base else ("",)
    )
    return tuple(f"torch.nn.functional.conv{t}{n}d" for t in transposes for n in dimensions)


@dataclass(frozen=True)
class NativeFunction:
    """One entry of native_functions.yaml."""

    base: str  # "softplus_backward"
    overload: str  # "grad_input"
    kernels: frozenset[str]  # C++ functions that serve it
    module: str  # python_module
    variants: frozenset[str]


def native_function(values: dict[str, Any]) -> NativeFunction:
    """An entry as its yaml says: without ``dispatch`` or a delegate, the C++ function is named after the op."""
    match = SCHEMA_NAME.match(str(values.get("func", "")))
    base, overload = (match[1], match[2] or "") if match else ("", "")
    dispatch = values.get("dispatch")
    kernels: set[str] = set()
    if isinstance(dispatch, dict):
        named = cast("dict[str, object]", dispatch).values()
        kernels = {str(kernel).rpartition("::")[2] for kernel in named}
    elif "structured_delegate" not in values and "structured" not in values:
        kernels = {base, f"{base}_out"} if overload.endswith("out") else {base}
    kernels |= {kernel.removesuffix("_symint") for kernel in kernels}
    variants = str(values.get("variants", "function")).replace(" ", "").split(",")
    module = str(values.get("python_module", ""))
    return NativeFunction(base, overload, frozenset(kernels), module, frozenset(variants))


class TorchDeclared:
    """The declarations of one tree, read when first asked for."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.own = any(path in tree.path_set for path in NATIVE_YAMLS)

    @cached_property
    def table(self) -> NativeTable | None:
        """PyTorch's own functions, for a tree (of an out-of-tree backend) that does not hold them."""
        return (
            None if self.own or "torch/nn/functional.py" in self._tree.path_set else native_table()
        )

    @cached_property
    def natives(self) -> tuple[NativeFunction, ...]:
        """Every entry of the native functions' yaml files."""
        others = () if self.own else (p for p in self._tree.paths if OUT_OF_TREE.search(p))
        return tuple(
            native_function(entry.values)
            for path in (*NATIVE_YAMLS, *others)
            for entry in read_entries(self._tree.text(path) or "") or ()
            if "func" in entry.values
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
    def _documented(self) -> frozenset[str]:
        """The functions and methods that PyTorch documents."""
        text = self._tree.text("torch/_torch_docs.py") or ""
        names = re.findall(r"\b(?:torch|_VariableFunctions)\.(\w+)\s*,", text)
        return frozenset(names)

    def undocumented(self, base: str) -> bool:
        """Whether a native function is a function of ``torch`` that its documentation leaves out."""
        natives = self.by_base.get(base, ())
        methods = any("method" in native.variants or native.module for native in natives)
        return bool(self._documented) and not methods and base not in self._documented

    def is_native(self, base: str) -> bool:
        """Whether a native function has this name."""
        return base in self.by_base or (self.table is not None and base in self.table.natives)

    def served(self, kernel: str) -> tuple[str, ...]:
        """The native functions that a C++ function serves, by yaml or by the naming of out-of-tree backends."""
        found = self.by_kernel.get(kernel, ())
        if found or self.table is None:
            return found
        return self._looked_up(_devices(kernel))

    def guessed(self, kernel: str) -> tuple[str, ...]:
        """The native functions that the name of an out-of-tree backend's function tells, where nothing else does."""
        if self.table is None:
            return ()
        words = kernel.split("_")
        found = self._looked_up(_stripped(kernel))
        device = any(word in backends().backends.names for word in words)
        return found or (self.of_stub(words[0] + "_") if device and words[0] else ())

    def _looked_up(self, names: Iterable[str]) -> tuple[str, ...]:
        for name in names:
            found = self.table.by_kernel.get(name, ()) if self.table is not None else ()
            if found or self.is_native(name):
                return found or (name,)
        return ()

    def of_stub(self, stub: str) -> tuple[str, ...]:
        """The native functions that a stub's name tells, for a stub whose callers are generated or in another tree."""
        if self.table is not None and stub in self.table.stubs:
            return self.table.stubs[stub]
        words = re.sub(r"_(stub|kernel|fn|impl)$", "", stub).split("_")
        for count in range(len(words), 0, -1):
            name = "_".join(words[:count])
            for spelled in (name, f"_{name}", f"{name}_"):
                if self.is_native(spelled):
                    return (spelled,)
        return ()

    @cached_property
    def derived(self) -> dict[str, tuple[str, ...]]:
        """A name in the formulas of derivatives.yaml -> the forward functions whose formulas have it."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for path in DERIVATIVES:
            for entry in read_entries(self._tree.text(path) or "") or ():
                match = SCHEMA_NAME.match(str(entry.values.get("name", "")))
                formulas = {key: value for key, value in entry.values.items() if key != "name"}
                for name in re.findall(r"\w+", str(formulas).replace("_symint(", "(")):
                    found[name][match[1] if match else ""] = None
        return {name: tuple(forwards) for name, forwards in found.items()}

    @cached_property
    def legacy(self) -> dict[str, tuple[str, ...]]:
        """TH function (``gather`` of ``THTensor_(gather)``) -> names by which ATen calls it (``_th_gather``)."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for names in map(cwrap_names, _CWRAP_BLOCK.findall(self._tree.text(CWRAP) or "")):
            for cname in names["cname"] or names["name"]:
                found[cname] |= dict.fromkeys(names["name"])
        return {cname: tuple(names) for cname, names in found.items()}


def cwrap_blocks(text: str) -> Iterator[tuple[str, int]]:
    """The declarations of a cwrap file, each with its first line."""
    lines = TextLines(text)
    for match in _CWRAP_BLOCK.finditer(text):
        yield match[0], lines.number(match.start())


def cwrap_names(block: str) -> dict[str, list[str]]:
    """``name`` and ``cname`` values of one cwrap declaration."""
    names: dict[str, list[str]] = {"name": [], "cname": []}
    for key, value in _CWRAP_NAME.findall(block):
        names[key].append(value)
    return names


def _devices(kernel: str) -> Iterator[str]:
    """What PyTorch's yaml might call a backend's kernel: the same for CUDA or CPU, or without the device."""
    yield kernel
    words = kernel.split("_")
    for device in ("cuda", "cpu"):
        yield "_".join(device if word in backends().backends.names else word for word in words)
    bare = "_".join(word for word in words if word not in backends().backends.names)
    yield bare
    yield bare.removesuffix("_out")


def _stripped(kernel: str) -> Iterator[str]:
    """A kernel's name without the words that say only that it is one."""
    bare = "_".join(word for word in kernel.split("_") if word not in backends().backends.names)
    for name in (bare, re.sub(r"_(kernel|impl|kernel_impl|template)(_?)$", r"\2", bare)):
        yield name
        yield f"{name}_"
        yield re.sub(r"_out(_impl)?$", "", name)
        yield name.replace("_out_", "_")
        if name.startswith(("foreach_", "fused_")):
            yield f"_{name.removesuffix('_')}"
