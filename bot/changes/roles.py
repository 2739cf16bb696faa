"""What a changed file is for, by its path: shared by the frameworks, which add their own folders."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from bot.changes.rules import Role

DOCUMENTATION_SUFFIXES: Final = frozenset(
    {".md", ".rst", ".txt", ".ipynb", ".png", ".jpg", ".svg", ".gif"}
)
CPP_SUFFIXES: Final = frozenset(
    {
        ".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp",
        ".hip", ".mm", ".m", ".metal", ".cl", ".sycl", ".kps",
    }
)  # fmt: skip
"""C, C++ and what is written like them: CUDA, HIP, SYCL, OpenCL, Metal, Objective-C, Paddle's kernels for XPU."""

PYTHON_SUFFIXES: Final = frozenset({".py"})
STUB_SUFFIXES: Final = (".pyi", ".pyi.in")
"""Signatures for type checkers: nothing runs them, and where they are generated, what they come from is read."""
BUILD_NAMES: Final = frozenset({"CMakeLists.txt", "setup.py", "setup.cfg", "pyproject.toml", "BUILD", "WORKSPACE",
                                "BUILD.bazel", "Makefile", ".gitmodules", "requirements.txt"})  # fmt: skip
_BUILD_SUFFIXES: Final = frozenset({".cmake", ".bzl", ".bazel"})
_CI: Final = re.compile(r"^(\.github|\.ci|\.circleci|ci|\.devcontainer|docker)/|^\.[a-z][^/]*$")
_DOCUMENTATION: Final = re.compile(r"^(docs?|tutorials?|examples?|benchmarks?)/")
_TEST: Final = re.compile(
    r"(^|/)(tests?|testing|unittest|test_utils)(/|$)|(^|/)test_[^/]*$|_test\.(cpp|cc|cu|py)$"
)


def is_cpp(path: str) -> bool:
    """Whether a file is C++, CUDA or the like by its suffix."""
    return "." + path.rpartition(".")[2] in CPP_SUFFIXES


def shared_role(path: str) -> Role:
    """The role that a path has in every framework."""
    pure = PurePosixPath(path)
    if pure.name in BUILD_NAMES or pure.suffix in _BUILD_SUFFIXES:
        return "build"
    if _CI.search(path):
        return "ci"
    if _TEST.search(path):
        return "test"
    if (
        _DOCUMENTATION.search(path)
        or pure.suffix in DOCUMENTATION_SUFFIXES
        or pure.name == "LICENSE"
    ):
        return "documentation"
    if path.endswith(STUB_SUFFIXES):
        return "stub"
    if pure.suffix in CPP_SUFFIXES or pure.suffix in PYTHON_SUFFIXES:
        return "source"
    return "other"
