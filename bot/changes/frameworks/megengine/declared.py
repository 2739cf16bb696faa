"""What MegEngine's repository declares: OpDefs, operators, modes, and which of them a registration names."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, cached_property, lru_cache
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from bot.changes.definition import Definition
from bot.changes.frameworks.megengine.sources import PARAMS, read_params
from bot.changes.index.tree import Tree
from bot.changes.sources.tablegen import read_tablegen
from bot.changes.sources.text_lines import TextLines
from bot.changes.table_file import read_table

OPS_TD: Final = "src/core/include/megbrain/ir/ops.td"
OPERATOR_HEADERS: Final = "dnn/include/megdnn/oprs/"
WRAPPER_HEADERS: Final = "src/opr/include/megbrain/opr/"
MAX_KEPT: Final = 4096  # folders and files whose answers are remembered

_REGISTERED: Final = re.compile(
    r"\bOP_TRAIT_REG\s*\(\s*(\w+)\s*,\s*[\w:]+(?:\s*,\s*(?:mgb::)?(?:opr::)?([\w:<>]+))?"
)
_WRAPPER: Final = re.compile(
    r"MGB_DEFINE_OPR_CLASS(?:_WITH_EXPORT)?\s*\(\s*(\w+)\s*,"
    r"((?:(?!MGB_DEFINE_OPR_CLASS)[^{])*?)\)\s*//\s*\{",
    re.DOTALL,
)
_CLASS: Final = re.compile(r"^[^\S\n]*class\s+(\w+)\s*(?:final\s*)?:", re.MULTILINE)
_DNN_CLASS: Final = re.compile(r"\bcb\((\w+)\)")
_IMPLEMENTED: Final = re.compile(
    r"^[^\S\n]*class\s+(\w+?)Impl\b(?:[^;{\n]|\n(?![ \t]*class\b))*+\{", re.MULTILINE
)
_GRADIENT: Final = re.compile(r"_?(?:Backward|BACKWARD)\w{0,200}$|_?(?:Grad|GRAD)$")


class _Own(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    opdef: str
    names: frozenset[str]
    source: str = Field(min_length=3)


class _Serves(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    operator: str
    others: tuple[str, ...]
    source: str = Field(min_length=3)


class _Folder(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    folder: str
    operators: frozenset[str]
    source: str = Field(min_length=3)


class _Mode(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    file: str
    mode: str
    source: str = Field(min_length=3)


class MegEngineFacts(BaseModel):
    """The file ``megengine.yml``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    own: tuple[_Own, ...]
    serves: tuple[_Serves, ...]
    folders: tuple[_Folder, ...]
    modes: tuple[_Mode, ...]

    def names_of(self, opdef: str) -> frozenset[str]:
        """The users of an OpDef that are the op itself, under names that its own does not tell."""
        return frozenset(name for row in self.own if row.opdef == opdef for name in row.names)

    def served_by(self, operator: str) -> tuple[str, ...]:
        """The operators that run on one."""
        return tuple(o for row in self.serves if row.operator == operator for o in row.others)


@cache
def facts() -> MegEngineFacts:
    """The stated facts. Raises ValueError for a bad file."""
    return read_table("bot.changes.frameworks.megengine", "facts.yml", MegEngineFacts)


def base_name(operator: str) -> str:
    """An operator's one name: ``ReduceForward`` and ``Reduce`` are the same."""
    return operator.removesuffix("Impl").removesuffix("Forward")


def forward_of(name: str) -> str:
    """The operator or mode that one is the gradient of (``ConvolutionBackwardData``, ``RELU_GRAD``); "" for no gradient."""
    forward = _GRADIENT.sub("", name)
    return forward if forward != name else ""


class MegEngineDeclared:
    """The declarations of one tree, read when first asked for."""

    def __init__(self, tree: Tree, cpp_paths: tuple[str, ...]) -> None:
        self._tree = tree
        self._cpp_paths = cpp_paths
        self.folder_operators = lru_cache(maxsize=MAX_KEPT)(self._folder_operators)
        self.registrations = lru_cache(maxsize=MAX_KEPT)(self._registrations)

    @cached_property
    def records(self) -> tuple[Definition, ...]:
        """The TableGen records of the OpDefs."""
        return read_tablegen(OPS_TD, self._tree.text(OPS_TD) or "")

    @cached_property
    def opdefs(self) -> frozenset[str]:
        """The names of the OpDefs."""
        return frozenset(record.name for record in self.records if record.kind == "entry")

    @cached_property
    def opdefs_of_param(self) -> dict[str, tuple[str, ...]]:
        """Parameter struct (``Reduce``) -> the OpDefs that take it (``[ReduceParam]``)."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for record in self.records:
            for used in record.uses:
                if used.endswith("Param"):
                    found[used.removesuffix("Param")].append(record.name)
        return {name: tuple(sorted(opdefs)) for name, opdefs in found.items()}

    @cached_property
    def modes(self) -> dict[str, frozenset[str]]:
        """Parameter struct -> its modes."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for entry in read_params(PARAMS, self._tree.text(PARAMS) or "") or ():
            struct, _, mode = entry.name.partition(".")
            if mode:
                found[struct].add(mode)
        return {struct: frozenset(modes) for struct, modes in found.items()}

    @cached_property
    def elemwise_modes(self) -> frozenset[str]:
        """The modes of the elementwise operators."""
        none: frozenset[str] = frozenset()
        return self.modes.get("Elemwise", none) | self.modes.get("ElemwiseMultiType", none)

    @cached_property
    def wrappers(self) -> dict[str, tuple[str, ...]]:
        """Class of the graph's operators -> the dnn operators that it runs; base names."""
        found: dict[str, tuple[str, ...]] = {}
        for path in self._cpp_paths:
            if not path.startswith(WRAPPER_HEADERS):
                continue
            for match in _WRAPPER.finditer(self._tree.text(path) or ""):
                wrapped = re.findall(r"megdnn::(\w+)", match[2])
                found[base_name(match[1])] = tuple(map(base_name, wrapped))
        return found

    @cached_property
    def wrapped_by(self) -> dict[str, tuple[str, ...]]:
        """Dnn operator -> the graph's operators that run it, when those are called otherwise; base names."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for wrapper, operators in self.wrappers.items():
            for operator in operators:
                if operator != wrapper:
                    found[operator].append(wrapper)
        return {operator: tuple(names) for operator, names in found.items()}

    @cached_property
    def dnn_operators(self) -> frozenset[str]:
        """The operators of dnn: what its handle makes, and the classes of its public headers; base names."""
        names: set[str] = set(
            map(
                base_name, _DNN_CLASS.findall(self._tree.text("dnn/src/common/handle_impl.h") or "")
            )
        )
        for path in self._cpp_paths:
            if path.startswith(OPERATOR_HEADERS):
                names |= set(map(base_name, _CLASS.findall(self._tree.text(path) or "")))
        return frozenset(name for name in names if not name.endswith("Base"))

    @cached_property
    def operators(self) -> frozenset[str]:
        """Every operator by its base name: dnn's, the graph's, and the OpDefs."""
        return self.dnn_operators | frozenset(self.wrappers) | self.opdefs

    def _folder_operators(self, backend: str, folder: str) -> frozenset[str]:
        """The operators that a folder ``dnn/src/<backend>/<folder>/`` implements; those of its namesakes when it has none."""
        for prefix in (f"dnn/src/{backend}/{folder}/", f"/{folder}/opr_impl"):
            names: set[str] = set()
            for path in self._cpp_paths:
                if not path.endswith(".h") or not path.startswith("dnn/src/") or prefix not in path:
                    continue
                found = _IMPLEMENTED.findall(self._tree.text(path) or "")
                names |= set(map(base_name, found)) & self.dnn_operators
            if names:
                return frozenset(names)
        rows = (row.operators for row in facts().folders if row.folder == folder)
        return next(rows, frozenset[str]())

    def _registrations(self, path: str) -> tuple[tuple[int, str, str], ...]:
        """Every ``OP_TRAIT_REG`` of a file: its line, its OpDef, and the base name of the graph's operator or ""."""
        text = self._tree.text(path) or ""
        lines = TextLines(text)
        return tuple(
            (lines.number(match.start()), match[1], base_name(match[2] or ""))
            for match in _REGISTERED.finditer(text)
        )

    @cached_property
    def opdefs_of_operator(self) -> dict[str, tuple[str, ...]]:
        """The graph's operator -> the OpDefs that are registered for it."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path in self._cpp_paths:
            if path.startswith("imperative/src/"):
                for _, opdef, operator in self.registrations(path):
                    if operator:
                        found[operator].add(opdef)
        return {operator: tuple(sorted(names)) for operator, names in found.items()}
