"""What OneFlow's repository declares: functionals, functors, op types, and which of them a definition registers."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import Final

from bot.changes.definition import Definition
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Tree
from bot.changes.sources.cpp_source import tokenize
from bot.changes.sources.tablegen import MNEMONIC, read_tablegen
from bot.changes.sources.yaml_entries import read_entries

FUNCTIONAL_YAML: Final = "oneflow/core/functional/functional_api.yaml"
OPS_FOLDER: Final = "oneflow/ir/include/OneFlow/"
FUNCTORS: Final = "oneflow/core/functional/"
AUTOGRAD: Final = "oneflow/core/autograd/"
BINDINGS: Final = "oneflow/api/python/"
USER_OPS: Final = "oneflow/user/ops/"
KERNELS: Final = "oneflow/user/kernels/"
PASSES: Final = "oneflow/core/job_rewriter/"
STATEFUL: Final = "oneflow/api/python/functional/"
FUNCTIONAL_YAMLS: Final = (
    FUNCTIONAL_YAML,
    "oneflow/api/python/functional/tensor_api.yaml",
    "oneflow/api/python/functional/dispatch_stateful_ops.yaml",
)
"""What the generated ``oneflow._C`` is made of (tools/functional/generate_*.py)."""

REGISTRARS: Final = frozenset(
    {
        "REGISTER_USER_KERNEL", "REGISTER_USER_OP", "REGISTER_CPU_ONLY_USER_OP", "REGISTER_NO_GRAD_USER_OP",
        "REGISTER_NO_GRAD_CPU_ONLY_USER_OP", "REGISTER_USER_OP_GRAD", "REGISTER_OP_EXPR_GRAD_FUNCTION",
        "REGISTER_USER_KERNEL_UNIFIED_NCCL_COMM_INIT",
    }
)  # fmt: skip
"""Macros whose first argument is an op type (oneflow/core/framework/user_op_*registry*.h, op_expr_grad_function.h)."""

REGISTERED: Final = re.compile(rf'\b(?:{"|".join(sorted(REGISTRARS))}) \( "([^"]+)"')
_REGISTRAR_ARGUMENT: Final = re.compile(rf"\b(?:{'|'.join(sorted(REGISTRARS))}) \( ([^,)]+)")
_SIGNATURE: Final = re.compile(r"=>\s*(\w+)")
_ADD_FUNCTOR: Final = re.compile(r"\badd_functor\b")
_FUNCTOR_NAME: Final = re.compile(r'\badd_functor (?:< [^;()]{0,400} > )?\( "(\w+)"')


class OneFlowDeclared:
    """The declarations of one tree, read when first asked for."""

    def __init__(self, tree: Tree, cpp: CppIndex) -> None:
        self._tree = tree
        self._cpp = cpp
        self._user_op_paths = tuple(p for p in cpp.paths if p.startswith(USER_OPS))

    @cached_property
    def apis(self) -> dict[str, tuple[frozenset[str], bool]]:
        """Functional name -> (functor names of its signatures, bound to Python)."""
        entries = [
            entry
            for path in FUNCTIONAL_YAMLS
            for entry in read_entries(self._tree.text(path) or "") or ()
        ]
        return {
            str(entry.values.get("name", "")): (
                frozenset(_SIGNATURE.findall(str(entry.values.get("signature", "")))),
                str(entry.values.get("bind_python", "")).lower() == "true",
            )
            for entry in entries
        }

    @cached_property
    def apis_of_functor(self) -> dict[str, tuple[str, ...]]:
        """Functor name -> functional names."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, (functors, _) in self.apis.items():
            for functor in functors:
                found[functor].append(name)
        return {functor: tuple(names) for functor, names in found.items()}

    @cached_property
    def records(self) -> tuple[Definition, ...]:
        """Every TableGen record of the user ops."""
        return tuple(
            record
            for path in self._tree.paths
            if path.startswith(OPS_FOLDER) and path.endswith(".td")
            for record in read_tablegen(path, self._tree.text(path) or "")
        )

    @cached_property
    def op_types(self) -> frozenset[str]:
        """Every op type: TableGen mnemonics and literal ``REGISTER_USER_OP`` names."""
        names = {match[1] for record in self.records if (match := MNEMONIC.search(record.code))}
        for path in self._user_op_paths:
            text = self._tree.text(path) or ""
            names |= set(re.findall(r'\bREGISTER_\w*USER_OP\(\s*"([^"]+)"', text))
        return frozenset(names)

    @cached_property
    def op_classes(self) -> dict[str, str]:
        """C++ op class -> op type (``OneFlow_XOp : OneFlow_BaseOp<"x">`` makes ``XOp``)."""
        return {
            record.name.removeprefix("OneFlow_"): match[1]
            for record in self.records
            if record.kind == "entry" and (match := MNEMONIC.search(record.code))
        }

    def registered(self, definition: Definition) -> tuple[str, ...]:
        """The op types that a registration names, written out or through macros."""
        written = REGISTERED.findall(definition.code)
        if written:
            return tuple(dict.fromkeys(written))
        pieces = self._cpp.closure(definition)
        arguments = [a for piece in pieces for a in _REGISTRAR_ARGUMENT.findall(piece.code)]
        if not arguments:
            return ()
        # A registering macro's own strings name attributes; an op's name comes from who calls the macro.
        callers = [p for p in pieces if not _REGISTRAR_ARGUMENT.search(p.code)]
        tokens = [tokenize(piece.code) for piece in callers]
        words = {word for token in tokens for word in (*token.names, *token.texts)}
        found: set[str] = set()
        for argument in arguments:
            literals = tokenize(argument).texts
            if tokenize(argument).names:
                found |= words
                found |= {word + suffix for word in words for suffix in literals}
                found |= {prefix + word for word in words for prefix in literals}
            else:
                found |= set(literals)
        return tuple(sorted(found & self.op_types))

    def added_functors(self, definition: Definition) -> tuple[str, ...]:
        """The functors that an ``add_functor`` names, written out or through macros."""
        pieces = self._cpp.closure(definition)
        if not any(_ADD_FUNCTOR.search(piece.code) for piece in pieces):
            return ()
        written = _FUNCTOR_NAME.findall(definition.code)
        if written:
            return tuple(written)
        tokens = [tokenize(piece.code) for piece in pieces]
        words = {word for token in tokens for word in (*token.names, *token.texts)}
        return tuple(sorted(words & set(self.apis_of_functor)))
