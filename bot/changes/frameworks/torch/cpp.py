"""PyTorch's edges in C++: from kernels, helpers, stubs, macros and registrations to native functions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final

from bot.changes import graph
from bot.changes.definition import Definition
from bot.changes.frameworks.torch.declared import TorchDeclared, backends
from bot.changes.frameworks.torch.macros import Expansions
from bot.changes.frameworks.torch.overloads import Overload, may_call, overload, overloads
from bot.changes.graph import Edge, Node
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.tree import Note

HEADERS: Final = (".h", ".hpp", ".cuh", ".inl")
FEW_USERS: Final = 8  # users of a helper up to which it is narrowed to them
FEW_FILES: Final = 2  # files that use a header's helper, up to which it is narrowed to them
FEW_KERNEL_USERS: Final = 3  # other functions that call a kernel by its own name
MAX_OVERLOADS: Final = 256  # of one name in one file that a call is compared with
FEW_DERIVED: Final = 8  # forward functions whose formulas use a helper

_IMPL: Final = re.compile(r"\bTORCH_IMPL_FUNC \( (\w+) \)")
_META: Final = re.compile(r"\bTORCH_(?:PRECOMPUTE_)?META_FUNC2? \( (\w+)")
_REGISTERS: Final = re.compile(
    r"\b(?:(?:ALSO_)?REGISTER_(?=\w*DISPATCH)\w+|DEFINE_DISPATCH|DECLARE_DISPATCH)\b"
)
_STUB: Final = re.compile(r"\b(\w+(?:_stub|_fn|_kernel|_impl|Stub))\b")
_LIBRARY: Final = re.compile(r'\bimpl(?:_UNBOXED)? \( (?:\w+ \( )?"([\w:.]+)"([^;]*)')
_TH: Final = re.compile(
    r"\bTH(?:Cuda|C)?(?:Tensor|Blas|Nn|NN|Lapack|Storage)?(?:_\w*)? ?_? ?\( (\w+) \)"
)
_VARIABLE: Final = re.compile(
    r"^(?:(?:static|const|constexpr|inline|extern|thread_local|auto|std|::|char|int|int64_t|double|float|bool|string|\*|&) )+(\w+) (?:\[ [^\]]*\] )?(?:=|\{|\()"
)
_LIBRARY_NAME: Final = re.compile(r"\b\w+::\w+(?:\.\w+)?")
_NAMED: Final = re.compile(r'"([\w.:]+)"')
_PYTHON_C: Final = re.compile(r"\bTHPVariable_(\w+)$")
_MACRO_CALL: Final = re.compile(r"\b[A-Z][A-Z0-9_]+ \(")
_FUNCTION_NAME: Final = re.compile(r"\b(\w+) [<(]")
_TEXT: Final = re.compile(r'"(?:\\.|[^"\\])*+"?')


def cpp_node(definition: Definition) -> Node:
    """The node of a C++ definition; calls of PyTorch's macros, which have the macro's name, are told apart."""
    return graph.cpp_node(definition, by_line="TORCH_" in definition.name)


def kernel_file(path: str, own: bool) -> bool:
    """Whether functions in a file can be kernels; in an out-of-tree backend, all can."""
    return "/native/" in path or not own


class TorchCpp:
    """Successors of ``cpp`` and ``stub`` nodes."""

    def __init__(self, cpp: CppIndex, declared: TorchDeclared, note: Note) -> None:
        self.cpp = cpp
        self.declared = declared
        self.note = note
        self.expansions = Expansions(cpp, note)
        self.overloads = lru_cache(maxsize=256)(self._overloads)
        self._named = lru_cache(maxsize=8)(self._find_named)
        self._made = lru_cache(maxsize=8)(self._find_made)

    @cached_property
    def native_paths(self) -> tuple[str, ...]:
        """The files that hold kernels and what calls them."""
        return tuple(p for p in self.cpp.paths if kernel_file(p, self.declared.own))

    def successors(self, definition: Definition) -> Iterator[Edge]:
        """What a changed C++ definition changes."""
        edges = list(self._edges(definition))
        yield from edges
        if edges:
            return
        if definition.kind == "function":
            for base in self.declared.guessed(definition.name.rpartition("::")[2]):
                yield Edge(Node("native", base), f"{definition.place} is named after {base}")
        for base in backends().files.of(definition.file):
            yield Edge(Node("native", base), f"{definition.file} is a backend of {base}")

    def of_stub(self, stub: str) -> Iterator[Edge]:
        """The functions that call a stub; where none is in the tree, the native function that its name tells."""
        callers = [
            definition
            for definition in self.cpp.naming(stub, self.native_paths)
            if not _REGISTERS.search(definition.code)
            and definition.name != stub
            and re.search(rf"\b{stub}\b", _TEXT.sub("", definition.code))
        ]
        for definition in callers:
            yield Edge(cpp_node(definition), f"{definition.place} calls {stub}")
        if not callers:
            for base in self.declared.of_stub(stub):
                yield Edge(Node("native", base), f"{stub} is called for {base}")

    def callers(self, base: str) -> list[Definition]:
        """ATen functions that call a native function."""
        qualified = r"\b(?:at|native|redispatch) :: (?:symint :: )?"
        if base.startswith("_"):  # such a name is no other function's, so it may stand alone
            qualified = rf"(?:{qualified}|(?<!:: ))"
        pattern = re.compile(rf"{qualified}\b{re.escape(base)}(?:_symint|_out|_outf)? (?:<|\()")
        own = {f"{base}{suffix}" for suffix in ("", "_symint", "_out", "_outf")}
        found = (d for word in sorted(own) for d in self.cpp.naming(word, self.native_paths))
        return [
            definition
            for definition in dict.fromkeys(found)
            if pattern.search(definition.code) and definition.name.rpartition("::")[2] not in own
        ]

    def _edges(self, definition: Definition) -> Iterator[Edge]:
        if definition.kind in ("statement", "entry") or definition.name.startswith("TORCH_LIBRARY"):
            yield from self._of_statement(definition)
            return
        place = definition.place
        for kernel in _IMPL.findall(definition.code[:300]):
            for base in self.declared.served(kernel):
                yield Edge(Node("native", base), f"{place} is a structured kernel of {base}")
        for base in _META.findall(definition.code[:300]):
            yield Edge(Node("native", base), f"{place} is the meta function of {base}")
        if "TORCH_" in definition.name:
            return
        name = definition.name.rpartition("::")[2]
        served = tuple(self._served(definition, name))
        yield from served
        yield from self._python_c(definition, name)
        yield from self._legacy(definition)
        derived = tuple(self._derived(definition, name))
        yield from derived
        yield from self._users(definition, name, bool(served or derived))

    def _served(self, definition: Definition, name: str) -> Iterator[Edge]:
        owner = definition.name.rpartition("::")[0].rpartition("::")[2]
        method = owner[:1].isupper() and not owner.endswith("NativeFunctions")
        if (
            not kernel_file(definition.file, self.declared.own)
            or method
            or definition.kind != "function"
        ):
            return
        for base in self.declared.served(name):
            yield Edge(
                Node("native", base),
                f"{definition.place} is a kernel of {base} (native_functions.yaml)",
            )

    def _derived(self, definition: Definition, name: str) -> Iterator[Edge]:
        if not definition.file.startswith(("torch/csrc/autograd/", "tools/autograd/templates/")):
            return
        forwards = self.declared.derived.get(name, ())
        for base in forwards:
            step = f"derivatives.yaml: {base} uses {name}"
            yield Edge(Node("native", base), step, len(forwards) <= FEW_DERIVED)

    def _python_c(self, definition: Definition, name: str) -> Iterator[Edge]:
        """Tensor's and torch's functions in C (torch/csrc/autograd, tools/autograd/templates)."""
        method = backends().indexing.methods.get(name)
        if method is not None:
            yield Edge(Node("public", f"torch.Tensor.{method}"), f"{name} is Tensor.{method}")
        match = _PYTHON_C.match(name)
        if match is None or method is not None:
            return
        for row in self.cpp.naming(name, (definition.file,)):
            if row.kind == "entry" and row.code.startswith("{") and row.name.isidentifier():
                owner = "torch." if "torch_functions" in definition.file else "torch.Tensor."
                yield Edge(Node("public", owner + row.name), f"{row.place} binds {name}")

    def _legacy(self, definition: Definition) -> Iterator[Edge]:
        if "/TH" not in definition.file:
            return
        for name in _TH.findall(definition.code[:200])[:1]:
            for legacy in self.declared.legacy.get(name, ()):
                for base in self.declared.served(legacy):
                    yield Edge(
                        Node("native", base), f"{definition.place} is {legacy}, a kernel of {base}"
                    )

    def _of_statement(self, definition: Definition) -> Iterator[Edge]:
        """A registration, a row of one, a call of a macro that defines something, or a variable."""
        code = self.expansions.expanded(definition)
        place = definition.place
        for kernel in dict.fromkeys(_IMPL.findall(code)):
            for base in self.declared.served(kernel):
                yield Edge(Node("native", base), f"{place} is a structured kernel of {base}")
        for base in dict.fromkeys(_META.findall(code)):
            yield Edge(Node("native", base), f"{place} is the meta function of {base}")
        for stub in dict.fromkeys(stubs(code)):
            yield Edge(Node("stub", stub), f"{place} registers {stub}")
        for name, _ in _LIBRARY.findall(code):
            yield from self._library_op(name, place)
        library = definition.name.startswith("TORCH_LIBRARY")
        if (library or definition.kind == "entry") and not _LIBRARY.search(code):
            yield from self._row(definition)
        variable = _VARIABLE.match(definition.code)
        if variable is not None and len(variable[1]) > 2:
            yield from self._users(definition, variable[1], False)
        yield from self._pasted(definition, code)

    def _pasted(self, definition: Definition, code: str) -> Iterator[Edge]:
        """Functions that a macro makes: kernels by their name, others by their users."""
        if code == definition.code:
            return
        made = set(re.findall(r"\b(\w+) \( [^()]*(?:\([^()]*\)[^()]*)*\) (?:const )?\{", code))
        for name in sorted(made):
            if kernel_file(definition.file, self.declared.own):
                for base in self.declared.served(name) or self.declared.guessed(name):
                    yield Edge(
                        Node("native", base), f"{definition.place} makes {name}, a kernel of {base}"
                    )
            if len(name) > 3 and name not in ("operator", "switch", "while"):
                for user in self.cpp.naming(name, (definition.file,)):
                    if user != definition and user.kind != "macro":
                        yield Edge(cpp_node(user), f"{user.place} uses {name}")

    def _row(self, definition: Definition) -> Iterator[Edge]:
        """A row of a table of methods, or of a list or map of names of ops."""
        if definition.code.startswith("{") and "THPVariable_" in definition.code:
            owner = "torch." if "torch_functions" in definition.file else "torch.Tensor."
            yield Edge(
                Node("public", owner + definition.name), f"{definition.place} is a row of methods"
            )
        elif _LIBRARY_NAME.fullmatch(definition.name):
            yield from self._library_op(definition.name, definition.place)
        elif self.declared.table is not None and "fallback" in definition.code:
            listed, before = (
                set(_NAMED.findall(text)) for text in (definition.code, definition.before)
            )
            for name in sorted(listed ^ before):
                yield from self._library_op(name, definition.place)

    def _library_op(self, written: str, place: str) -> Iterator[Edge]:
        """An op by the name under which a library implements it: ``aten::add.out``, ``quantized::conv2d``."""
        space, _, name = written.rpartition("::")
        base = name.partition(".")[0]
        if space in ("", "aten") and self.declared.is_native(base):
            yield Edge(Node("native", base), f"{place} implements aten::{base}")
        elif space not in ("", "aten", "_"):
            forward = re.sub(r"^_(\w+)_backward$", r"\1", base)
            yield Edge(
                Node("public", f"torch.ops.{space}.{forward}"), f"{place} implements {written}"
            )

    def _users(self, definition: Definition, name: str, kernel: bool) -> Iterator[Edge]:
        """Who uses a helper; of a kernel, only those who call it by a name that is no op's."""
        if len(name) < 3 or name == "operator":
            self.note(f"{definition.place}: users of so short a name are not looked for")
            return
        if kernel and self.declared.is_native(name):
            return
        users = [
            user
            for user in self._candidates(definition, name)
            if self._means(definition, name, user)
        ]
        if kernel and len(users) > FEW_KERNEL_USERS:
            return
        few = len(users) <= FEW_USERS
        if _is_header(definition) and definition.kind != "macro":
            few = few and len({user.file for user in users} - {definition.file}) <= FEW_FILES
        for user in users:
            rows = [row for row in _LIBRARY.findall(user.code) if re.search(rf"\b{name}\b", row[1])]
            if rows and user.kind == "function":
                for written, _ in rows:
                    yield from self._library_op(written, user.place)
            else:
                yield Edge(cpp_node(user), f"{user.place} uses {name}", few and not kernel)

    def _candidates(self, definition: Definition, name: str) -> Iterator[Definition]:
        static = definition.code.startswith("static ") and not _is_header(definition)
        found = False
        for user in self.cpp.users(name, definition.file, definition):
            if user.code.startswith("using ") or (static and user.file != definition.file):
                continue
            found = True
            yield user
        if _is_header(definition) and definition.kind == "function":
            # A source's function that hands over to the header's of the same name (templates::cpu::cauchy_kernel).
            for user in self.cpp.naming(name, self.cpp.scope(name, definition.file)):
                other = user.name == definition.name and user.file != definition.file
                if other and re.search(rf":: {name} (?:<|\()", user.code):
                    found = True
                    yield user
        if not found and not static and definition.kind == "function" and "_" in name:
            # A kernel's source need not include the header that declares it.
            yield from (
                d for d in self.cpp.naming(name, self.native_paths) if d.name != definition.name
            )

    def _means(self, definition: Definition, name: str, user: Definition) -> bool:
        """Whether the user's code names the definition, and not something else of its name."""
        code = _TEXT.sub('""', user.code)
        method = "::" in definition.name
        if user.file != definition.file and self._own(user, name):
            return False
        member = "" if method else r"(?<!\. )(?<!-> )"
        pattern = rf"(?<!std :: )(?<!thrust :: ){member}\b{name}\b"
        if not re.search(pattern, code):
            return False
        if definition.kind != "function":
            return True
        meant = overload(definition)
        others = self.overloads(definition)
        return meant is None or not others or may_call(code, name, meant, others)

    def _own(self, user: Definition, name: str) -> bool:
        """Whether a source has a function of that name itself, and its unqualified calls mean that one."""
        if user.file.endswith(HEADERS) or re.search(rf":: {name}\b", user.code):
            return False
        return name in self.cpp.functions_of(user.file)

    def _overloads(self, definition: Definition) -> tuple[Overload, ...]:
        """The other functions of a name in its file, those that macros make included."""
        name = definition.name.rpartition("::")[2]
        found: list[Overload] = []
        for other in self._named(definition.file).get(definition.name, ())[:MAX_OVERLOADS]:
            if other.code != definition.code:
                found += list(overloads(other.code, name))[:1]
        for code in self._made(definition.file).get(name, ())[:MAX_OVERLOADS]:
            found += overloads(code, name)
        return tuple(found)

    def _find_named(self, path: str) -> dict[str, tuple[Definition, ...]]:
        """The functions of a file by name."""
        found: defaultdict[str, list[Definition]] = defaultdict(list)
        for definition in self.cpp.definitions(path):
            if definition.kind == "function":
                found[definition.name].append(definition)
        return {name: tuple(functions) for name, functions in found.items()}

    def _find_made(self, path: str) -> dict[str, tuple[str, ...]]:
        """What the macro calls of a file come to, by the names in it that may be functions."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for statement in self.cpp.definitions(path):
            if statement.kind == "statement" and _MACRO_CALL.match(statement.code):
                code = self.expansions.expanded(statement)
                for name in dict.fromkeys(_FUNCTION_NAME.findall(code)):
                    found[name].append(code)
        return {name: tuple(codes) for name, codes in found.items()}


def stubs(code: str) -> Iterator[str]:
    """The stubs that registrations name."""
    for match in _REGISTERS.finditer(code):
        named = _STUB.search(code, match.end(), match.end() + 400)
        if named is not None:
            yield named[1]


def _is_header(definition: Definition) -> bool:
    return definition.file.endswith(HEADERS)
