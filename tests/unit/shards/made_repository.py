"""A small repository with PyTorch's layout and one pull request, in real git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

FUNCTIONAL = "torch/nn/functional.py"
BEFORE = """\
def elu(input, alpha=1.0):
    return input * alpha

def softsign(input):
    return input / (input.abs() + 1)

def tanhshrink(input):
    return input - input.tanh()
"""
AFTER = BEFORE.replace("* alpha", "+ alpha").replace("+ 1", "+ 2").replace("- input", "+ input")


def git(repository: Path, *arguments: str) -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    variables = os.environ | dict.fromkeys(names, "a@example.org")
    variables |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        env=variables, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit(repository: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "change")
    return git(repository, "rev-parse", "HEAD")


def pull_request(
    folder: Path, base: Mapping[str, str], head: Mapping[str, str]
) -> tuple[Path, str, str]:
    """The repository, its base commit and its head commit, which changes three ops."""
    repository = folder / "repository"
    repository.mkdir(parents=True)
    git(repository, "init", "-q", "-b", "main")
    tree = {"torch/__init__.py": "from torch import nn\n", "torch/nn/__init__.py": ""}
    tree |= {FUNCTIONAL: BEFORE}
    first = commit(repository, tree | base)
    return repository, first, commit(repository, {FUNCTIONAL: AFTER} | head)
