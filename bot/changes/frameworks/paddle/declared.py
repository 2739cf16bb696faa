"""What PaddlePaddle's repository declares: ops and their gradients, kernels and shape functions, and names of old operators."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Final, cast

from bot.changes.definition import Definition
from bot.changes.index.tree import Tree
from bot.changes.sources.yaml_entries import entry_definitions, read_entries

YAML_FOLDERS: Final = (
    "paddle/phi/api/yaml/", "paddle/phi/ops/yaml/", "python/paddle/utils/code_gen/", "paddle/fluid/pir/dialect/operator/ir/",
    "paddle/fluid/dialect/",
)  # fmt: skip
"""Where the lists of ops have been: code_gen until mid 2022, phi/api/yaml until 2024, phi/ops/yaml since; operator/ir for PIR."""

API_INFO: Final = "python_api_info.yaml"
_NO_OPS: Final = frozenset(
    {"op_version.yaml", "api_version.yaml", "tensor_operants.yaml", API_INFO}
)
_COMPAT: Final = frozenset({"op_compat.yaml", "api_compat.yaml"})
_SIGNATURES: Final = "paddle/phi/ops/compat/"
ENTRY_KEYS: Final = ("op", "backward_op", "api", "backward_api")

_WORD: Final = re.compile(r"\w+")
_BRACES: Final = re.compile(r"\{[^{}]*\}")
_TWO_NAMES: Final = re.compile(r"(\w+)\s*(?:\(([\w\s,]+)\))?")
_MAPPING: Final = re.compile(r"PD_REGISTER_ARG_MAPPING_FN\(\s*(\w+)\s*,\s*(?:\w+::)*(\w+)")
_BASE_NAME: Final = re.compile(r"PD_REGISTER_BASE_KERNEL_NAME\(\s*(\w+)\s*,\s*(\w+)")
_SIGNATURE_FUNCTION: Final = re.compile(r"^KernelSignature\s+(\w+)\(", re.MULTILINE)
_SIGNATURE_NAME: Final = re.compile(r"KernelSignature\(\s*\"(\w+)\"")
_GRADIENT: Final = re.compile(r"_(?:(?:double|triple|quad)_)?grad$|_grad_grad$")


@dataclass(frozen=True)
class DeclaredOp:
    """One entry of a yaml file. ``calls`` are the ops that it runs in place of a kernel."""

    name: str
    kernels: frozenset[str]
    metas: frozenset[str]  # C++ functions that infer shape, dtype and distribution
    forward: str
    backward: tuple[str, ...]
    calls: frozenset[str]


def is_op_yaml(path: str) -> bool:
    """Whether a path is of a file that lists ops."""
    return path.startswith(YAML_FOLDERS) and path.endswith(".yaml")


def yaml_definitions(path: str, text: str) -> tuple[Definition, ...] | None:
    """The entries of a file that lists ops, named by the op; None when the text is no list."""
    found = entry_definitions(path, text, ENTRY_KEYS[0])
    if found is None:
        return None
    names = [_entry_name(entry.values) for entry in read_entries(text) or ()]
    return tuple(
        Definition(d.file, prefix(path) + name, d.kind, d.first, d.last, d.code, d.uses)
        for d, name in zip(found, names, strict=True)
    )


def prefix(path: str) -> str:
    """What a file's ops are called with in front: ``sparse_add`` is ``add`` of sparse_ops.yaml."""
    name = PurePosixPath(path).name
    return next((f"{kind}_" for kind in ("sparse", "strings") if name.startswith(kind)), "")


def _entry_name(values: dict[str, Any]) -> str:
    return next((_first_word(values[key]) for key in ENTRY_KEYS if key in values), "")


def _first_word(value: object) -> str:
    match = _WORD.search(str(value))
    return match[0] if match else ""


def _function_names(value: object) -> frozenset[str]:
    """Names in ``add {dense, dense -> dense}, add_sr {...}``, without what the braces say."""
    return frozenset(_WORD.findall(_BRACES.sub(" ", str(value))))


def _declared(values: dict[str, Any], front: str) -> DeclaredOp:
    kernel = cast(
        "dict[str, Any]", values.get("kernel") if isinstance(values.get("kernel"), dict) else {}
    )
    meta = cast(
        "dict[str, Any]",
        values.get("infer_meta") if isinstance(values.get("infer_meta"), dict) else {},
    )
    forward = _first_word(values.get("forward", ""))
    backward = tuple(front + name for name in _WORD.findall(str(values.get("backward", ""))))
    calls = {front + _first_word(values[key]) for key in ("invoke", "composite") if key in values}
    metas = _function_names(meta.get("func", "")) | _function_names(meta.get("spmd_rule", ""))
    name = front + _entry_name(values)
    return DeclaredOp(
        name, _function_names(kernel.get("func", "")), metas, front + forward if forward else "", backward,
        frozenset(calls) - {name},
    )  # fmt: skip


class PaddleDeclared:
    """The declarations of one tree, read when first asked for."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._yamls = tuple(path for path in tree.paths if is_op_yaml(path))

    @cached_property
    def ops(self) -> tuple[DeclaredOp, ...]:
        """Every entry of every list of ops; an op may have several (dygraph, static)."""
        return tuple(
            _declared(entry.values, prefix(path))
            for path in self._yamls
            if PurePosixPath(path).name not in _NO_OPS | _COMPAT
            for entry in read_entries(self._tree.text(path) or "") or ()
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Every op's name, old names included."""
        return self._declared_names | frozenset(self._modern)

    @cached_property
    def _by_kernel(self) -> dict[str, tuple[str, ...]]:
        pairs = [(kernel, op.name) for op in self.ops for kernel in sorted(op.kernels)]
        pairs += [(kernel, op) for kernel, old in self._signatures for op in self.modern(old)]
        return _grouped(pairs)

    @cached_property
    def _by_meta(self) -> dict[str, tuple[str, ...]]:
        return _grouped((meta, op.name) for op in self.ops for meta in sorted(op.metas))

    @cached_property
    def _forwards(self) -> dict[str, tuple[str, ...]]:
        """Gradient op -> the ops whose gradient it is."""
        said = [(op.name, op.forward) for op in self.ops if op.forward]
        said += [(backward, op.name) for op in self.ops for backward in op.backward]
        return _grouped((gradient, op) for gradient, op in said if gradient != op)

    @cached_property
    def _callers(self) -> dict[str, tuple[str, ...]]:
        return _grouped((called, op.name) for op in self.ops for called in sorted(op.calls))

    @cached_property
    def _signatures(self) -> tuple[tuple[str, str], ...]:
        """(kernel, old operator), from the files that map one to the other."""
        found: list[tuple[str, str]] = []
        for path in self._tree.paths:
            if path.startswith(_SIGNATURES) and path.endswith(".cc"):
                found += _mapped(self._tree.text(path) or "")
        return tuple(found)

    @cached_property
    def _modern(self) -> dict[str, tuple[str, ...]]:
        """Old operator -> today's names (``elementwise_add`` is ``add``; the old ``sum`` is ``add_n``)."""
        return _grouped((old, new) for new, old in self._same_names())

    @cached_property
    def _old(self) -> dict[str, tuple[str, ...]]:
        return _grouped(self._same_names())

    def _same_names(self) -> Iterator[tuple[str, str]]:
        """(today's name, the old operator's)."""
        for path in self._yamls:
            if PurePosixPath(path).name not in _COMPAT:
                continue
            for entry in read_entries(self._tree.text(path) or "") or ():
                for key in (*ENTRY_KEYS, "backward"):
                    for ours, theirs in _TWO_NAMES.findall(str(entry.values.get(key, ""))):
                        yield from ((ours, name) for name in _WORD.findall(theirs))
        for kernel, old in self._signatures:
            if kernel in self._declared_names and old not in self._declared_names:
                yield kernel, old

    @cached_property
    def _declared_names(self) -> frozenset[str]:
        return frozenset(op.name for op in self.ops)

    def modern(self, old: str) -> tuple[str, ...]:
        """Today's names of an old operator; its own where it has no other."""
        return self._modern.get(old, (old,))

    def old_names(self, name: str) -> frozenset[str]:
        """The old operators that an op is."""
        return frozenset(self._old.get(name, ())) | frozenset(self._old.get(name.rstrip("_"), ()))

    def spellings(self, name: str) -> frozenset[str]:
        """All names of an op, the given one included."""
        found = {name, name.rstrip("_")}
        if name not in self._declared_names:
            found |= set(self.modern(name))
        return frozenset(found).union(*(self.old_names(spelled) for spelled in found))

    def ops_of_kernel(self, kernel: str) -> tuple[str, ...]:
        """The ops that run a kernel; the op of its name where no yaml entry says."""
        found = self._by_kernel.get(kernel, ())
        if not found and kernel in self.names:
            return (kernel,)
        return found

    def ops_of_meta(self, function: str) -> tuple[str, ...]:
        """The ops whose shape, dtype or distribution a C++ function infers."""
        return self._by_meta.get(function, ())

    def forwards(self, name: str) -> tuple[str, ...]:
        """The ops whose gradient an op is, by the yaml files, else by its name."""
        spelled = self.spellings(name)
        found = dict.fromkeys(
            forward for s in sorted(spelled) for forward in self._forwards.get(s, ())
        )
        if not found and _GRADIENT.search(name):
            return (_GRADIENT.sub("", name),)
        return tuple(found)

    def callers(self, name: str) -> tuple[str, ...]:
        """The ops that run another op in place of a kernel of their own."""
        return tuple(
            dict.fromkeys(
                op for s in sorted(self.spellings(name)) for op in self._callers.get(s, ())
            )
        )

    @cached_property
    def bound(self) -> dict[str, tuple[str, ...]]:
        """Op -> public names that are bound to it without a Python function (python_api_info.yaml, since 2025)."""
        return _grouped(
            (_entry_name(entry.values), alias)
            for path in self._yamls
            if PurePosixPath(path).name == API_INFO
            for entry in read_entries(self._tree.text(path) or "") or ()
            for alias in re.findall(r"paddle(?:\.\w+)+", str(entry.values.get("name", "")))
        )


def _mapped(text: str) -> Iterator[tuple[str, str]]:
    functions: dict[str, list[str]] = {}
    pieces = _SIGNATURE_FUNCTION.split(text)
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        functions[name] = _SIGNATURE_NAME.findall(body)
    for old, function in _MAPPING.findall(text):
        yield from ((kernel, old) for kernel in functions.get(function, ()))
    yield from ((kernel, old) for old, kernel in _BASE_NAME.findall(text))


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for key, value in pairs:
        found[key][value] = None
    return {key: tuple(values) for key, values in found.items()}
