"""Makes ``natives.yml``: the native functions of a released PyTorch, read by this package's own rules.

``python -m bot.changes.frameworks.torch.natives_file SITE_PACKAGES VERSION SOURCE SOURCE_VERSION > natives.yml``:
SITE_PACKAGES holds ``torch/`` and ``torchgen/packaged/`` of a release, SOURCE the unpacked sources of a release (whose C++ tells
which public functions call private ones, and for which functions a stub is called). Nothing of either is imported or run.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bot.changes.frameworks.torch.declared import is_private
from bot.changes.frameworks.torch.rules import LAYOUT, PYTHON_RULES, TorchRules
from bot.changes.frameworks.torch.walk import TorchReader
from bot.changes.graph import Node, walk
from bot.changes.index.tree import Tree

FOLDERS: Final = (
    "torch/", "torchgen/packaged/", "aten/src/ATen/", "tools/autograd/", "torch/csrc/autograd/", "c10/util/",
)  # fmt: skip
MAX_THROUGH: Final = (
    6  # public functions that call an op made of a native one: with more, none is named
)
MAX_ONLY_THROUGH: Final = 24  # the same for a native function that has no public one of its own


def tree_of(folder: Path) -> Tree:
    """The files of a folder that PyTorch's rules read."""
    paths = [
        inner
        for root, _, names in os.walk(folder)
        for name in names
        if (inner := Path(root, name).relative_to(folder).as_posix()).startswith(FOLDERS)
    ]
    return Tree(sorted(paths), lambda path: Path(folder, path).read_text("utf-8", "replace"))


def reader_of(tree: Tree) -> TorchReader:
    """A reader of the tree that keeps no notes."""
    reader = TorchRules().reader(tree, lambda line: None)
    assert isinstance(reader, TorchReader), (LAYOUT, PYTHON_RULES)
    return reader


def reached(reader: TorchReader, base: str) -> tuple[list[str], list[str]]:
    """The public names that a native function is reached by, directly and through another op."""
    found = walk(Node("native", base), base, reader.successors).reached
    names = [(entry.name.removeprefix("torch."), entry.indirect) for entry in found]
    itself = (base, f"_C._nn.{base}")
    named = [
        (name, indirect) for name, indirect in names if name not in itself or not is_private(base)
    ]
    public = sorted(name for name, indirect in named if not indirect)
    through = sorted(name for name, indirect in named if indirect and not is_private(name))
    most = MAX_THROUGH if public else MAX_ONLY_THROUGH
    return public, through if len(through) <= most else []


def natives_of_stub(reader: TorchReader, stub: str) -> list[str]:
    """The native functions whose kernels call a stub."""
    found: dict[str, None] = {}
    seen: set[Node] = set()
    queue = deque([Node("stub", stub)])
    while queue and len(seen) < 60:
        node = queue.popleft()
        edges = [edge for edge in reader.successors(node) if edge.direct]
        natives = [edge.target.name for edge in edges if edge.target.kind == "native"]
        found |= dict.fromkeys(natives)
        for edge in edges:
            if not natives and edge.target.kind == "cpp" and edge.target not in seen:
                seen.add(edge.target)
                queue.append(edge.target)
    return list(found)


def stubs(tree: Tree) -> Iterator[str]:
    """Every stub that a header declares."""
    for path in tree.paths:
        if path.startswith("aten/") and path.endswith((".h", ".cuh")):
            for declared in re.findall(
                r"DECLARE_DISPATCH\(((?:(?!DECLARE_DISPATCH)[^;])*)\)", tree.text(path) or ""
            ):
                yield declared.rpartition(",")[2].strip()


def main(release: Path, version: str, source: Path, source_version: str) -> None:
    """Write the file to standard output."""
    reader, other = reader_of(tree_of(release)), reader_of(tree_of(source))
    print(f'source: "PyTorch {version}"')
    print(
        'licence: "facts of PyTorch (BSD-3-Clause, Copyright Facebook, Inc. and contributors): names from '
        f"native_functions.yaml, derivatives.yaml and torch/ of the {version} wheel; callers in C++ and stubs from the "
        f'sources of {source_version}"'
    )
    print("natives:")
    for base, natives in sorted(reader.declared.by_base.items()):
        public, through = reached(reader, base)
        own = [name for name in public if name != base and not is_private(name)]
        if not own and base in other.declared.by_base:
            found = reached(other, base)
            public, through = found if any(found) else (public, through)
        kernels = sorted({kernel for native in natives for kernel in native.kernels} - {base})
        rows = {"kernels": kernels, "public": public, "through": through}
        values = ", ".join(f'{key}: "{" ".join(names)}"' for key, names in rows.items() if names)
        print(f'  "{base}": {{{values}}}')
    print("stubs:")
    for stub in sorted(set(stubs(other.tree))):
        names = [name for name in natives_of_stub(other, stub) if name in reader.declared.by_base]
        own = reader.declared.of_stub(stub)
        if set(own) & set(names):  # those of its name, where the stub is a tool of others too
            names = [name for name in names if name.startswith(own[0])]
        if names and len(names) <= 12:
            print(f'  "{stub}": "{" ".join(names)}"')


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4])
