"""How long the changes room takes and what memory it needs, cold and warm, and how both grow with the repository.

Usage: ``python benchmarks/changes_time.py [REPO_DIR BASE HEAD ...] [--sizes 1000,5000,20000,50000] [--framework F]``

Each diff of a git directory is read three times, each time by a process of its own: ``cold`` with an empty cache,
``warm`` with the index of that run but without its answer, and ``again`` with both. Seconds are wall time of
opening the repository and finding the changes, without the interpreter's start; MiB is the peak of the process.
``--sizes`` writes trees of so many files in OneFlow's layout and reads three diffs of each: one kernel, one function of
a header that every kernel includes, and a thousand new files (a fifth of the tree where it is small).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bot.changes.find import find_changes
from bot.changes.frameworks import FRAMEWORKS
from bot.changes.git_changeset import GitChangeSet
from bot.changes.index.store import IndexStore

FILES_PER_OP = 5
# Functions that no one else calls in each file, so that files have the size of real ones.
FILLER = 24


def read_once(
    repository: str, base: str, head: str, framework: str, cache: str, answer: str
) -> None:
    """The child: one reading, as a line of JSON."""
    started, cpu = time.monotonic(), time.process_time()
    store = IndexStore(Path(cache))
    frameworks = FRAMEWORKS if answer == "kept" else (*FRAMEWORKS,)
    with GitChangeSet(Path(repository), base, head) as changeset:
        files = len(changeset.head_paths())
        # Rules given by the caller are not OpDiff's own: the index is used then, but no answer of an earlier run.
        found = find_changes(changeset, framework or None, frameworks=frameworks, store=store)
    store.close()
    print(
        json.dumps(
            {
                "files": files,
                "seconds": time.monotonic() - started,
                "cpu": time.process_time() - cpu,
                "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "ops": len(found.ops),
                "unmapped": len(found.unmapped),
                "problem": store.problem,
            }
        )
    )


def measure(title: str, repository: Path, base: str, head: str, framework: str) -> None:
    """Print one row of the table."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm, again = (
            child(str(repository), base, head, framework, cache, answer)
            for answer in ("none", "none", "kept")
        )
        if not again["problem"]:
            again = child(str(repository), base, head, framework, cache, "kept")
        size = sum(file.stat().st_size for file in Path(cache).iterdir()) / (1 << 20)
    print(
        f"| {title} | {cold['files']} | {cold['ops']} | {cold['seconds']:.1f} ({cold['cpu']:.1f}) | "
        f"{warm['seconds']:.1f} ({warm['cpu']:.1f}) | {again['seconds']:.1f} | {cold['mib']:.0f} | "
        f"{warm['mib']:.0f} | {size:.0f} |",
        flush=True,
    )


def child(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", *arguments],
        check=True,
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout)


def body(prefix: str) -> str:
    """Functions that only their own file knows."""
    return "".join(
        f"static int {prefix}_part{n}(int first, int second) {{\n"
        f"  int total_{n} = first * {n} + second; // part {n}\n"
        f"  if (total_{n} > first) {{ return total_{n} - second; }}\n  return total_{n};\n}}\n\n"
        for n in range(FILLER)
    )


def python_body(prefix: str) -> str:
    return "".join(
        f"def _{prefix}_part{n}(first, second):\n    total = first * {n} + second\n    return total - first\n\n"
        for n in range(FILLER)
    )


def op_files(number: int) -> Iterator[tuple[str, str]]:
    """The files of one op in OneFlow's layout."""
    op, name = f"made_op{number}", f"MadeOp{number}"
    header = f'#include "oneflow/core/made/shared{number % 50}.h"\n'
    spaced = f"namespace oneflow {{\n{body(op)}"
    yield (
        f"oneflow/user/kernels/{op}_kernel.cpp",
        f"{header}{spaced}class {name}Kernel final {{ void Compute() {{ SharedStep{number % 50}(); }} }};\n"
        f'REGISTER_USER_KERNEL("{op}").SetCreateFn<{name}Kernel>();\n}}\n',
    )
    yield (
        f"oneflow/core/functional/impl/{op}_functor.cpp",
        f'{header}{spaced}namespace impl {{ class {name}Functor {{ {name}Functor() {{ op_ = OpBuilder("{op}"); }} }}; }}\n'
        f'ONEFLOW_FUNCTION_LIBRARY(m) {{ m.add_functor<impl::{name}Functor>("{name}"); }}\n}}\n',
    )
    yield (
        f"oneflow/core/autograd/gradient_funcs/{op}.cpp",
        f"{header}{spaced}struct {name}Grad : public OpExprGradFunction {{ void Apply() {{}} }};\n"
        f'REGISTER_OP_EXPR_GRAD_FUNCTION("{op}", {name}Grad);\n}}\n',
    )
    yield (
        f"python/oneflow/nn/modules/{op}.py",
        f"import oneflow as flow\n\n\n{python_body(op)}class {name}:\n    def forward(self, x):\n"
        f"        return flow._C.{op}(x)\n",
    )
    yield f"python/oneflow/test/modules/test_{op}.py", python_body(op)


def made_tree(files: int) -> dict[str, str]:
    """A tree of about so many files."""
    ops = files // FILES_PER_OP
    tree = dict(pair for number in range(ops) for pair in op_files(number))
    for number in range(50):
        tree[f"oneflow/core/made/shared{number}.h"] = (
            f'#include "oneflow/core/made/base.h"\ninline int SharedStep{number}() {{ return BaseStep(1); }}\n'
        )
    tree["oneflow/core/made/base.h"] = "inline int BaseStep(int x) { return x; }\n"
    return tree | declarations(ops)


def declarations(ops: int) -> dict[str, str]:
    """The files that name every op."""
    return {
        "oneflow/core/functional/functional_api.yaml": "".join(
            f'- name: "made_op{n}"\n  signature: "Tensor (Tensor x) => MadeOp{n}"\n  bind_python: True\n\n'
            for n in range(ops)
        ),
        "oneflow/ir/include/OneFlow/OneFlowUserOps.td": "".join(
            f'def OneFlow_MadeOp{n}Op : OneFlow_BaseOp<"made_op{n}", [NoMemoryEffect]> {{\n  let x = 1;\n}}\n'
            for n in range(ops)
        ),
        "python/oneflow/__init__.py": "".join(
            f"from oneflow._C import made_op{n}\n" for n in range(ops)
        ),
        "python/oneflow/nn/__init__.py": "".join(
            f"from oneflow.nn.modules.made_op{n} import MadeOp{n}\n" for n in range(ops)
        ),
    }


def diffs(files: int, tree: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    kernel = "oneflow/user/kernels/made_op7_kernel.cpp"
    yield "one kernel", {kernel: tree[kernel].replace("SharedStep7()", "SharedStep7(); Other()")}
    header = "oneflow/core/made/base.h"
    yield "a header of all kernels", {header: tree[header].replace("return x;", "return x + 1;")}
    ops = files // FILES_PER_OP
    new = range(ops, ops + min(ops // 5, 1000 // FILES_PER_OP))
    yield (
        f"{len(new) * FILES_PER_OP} new files",
        dict(pair for number in new for pair in op_files(number)) | declarations(ops + len(new)),
    )


def write_commits(repository: Path, trees: list[dict[str, str]]) -> None:
    """One commit of the whole first tree as ``base``, and one on it for each other tree."""
    subprocess.run(["git", "init", "-q", "--bare", str(repository)], check=True)
    stream: list[bytes] = []
    for number, tree in enumerate(trees):
        name = "base" if number == 0 else f"diff{number}"
        stream.append(f"commit refs/heads/{name}\ncommitter a <a@example.org> 0 +0000\n".encode())
        stream.append(b"data 0\n" + (b"from refs/heads/base\n" if number else b""))
        for path, text in tree.items():
            data = text.encode()
            stream.append(f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    subprocess.run(
        ["git", "-C", str(repository), "fast-import", "--quiet"], input=b"".join(stream), check=True
    )


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        read_once(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("diffs", nargs="*", metavar="REPO_DIR BASE HEAD")
    parser.add_argument("--sizes", default="", help="numbers of files of the trees to write")
    parser.add_argument("--framework", default="", help="default: found from the tree")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        "| diff | files | ops | cold s (CPU) | warm s (CPU) | again s | cold MiB | warm MiB | cache MiB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for repository, base, head in zip(*[iter(arguments.diffs)] * 3, strict=True):
        title = f"{Path(repository).resolve().parent.name} {head[:10]}"
        measure(title, Path(repository), base, head, arguments.framework)
    for size in [int(word) for word in arguments.sizes.split(",") if word]:
        tree = made_tree(size)
        edits = list(diffs(size, tree))
        with tempfile.TemporaryDirectory() as folder:
            repository = Path(folder) / "made.git"
            write_commits(repository, [tree, *(files for _, files in edits)])
            for number, (title, _) in enumerate(edits, 1):
                measure(f"made: {title}", repository, "base", f"diff{number}", "")


if __name__ == "__main__":
    main()
