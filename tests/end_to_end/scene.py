"""Real git repositories for workflows: a framework's released Python files as its repository, and forks' branches."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from command import ROOT

AUTHOR = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
IGNORED = shutil.ignore_patterns("*.so*", "*.pyc", "__pycache__", "include", "*.a")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; raises when it fails."""
    return subprocess.run(
        ["git", *AUTHOR, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@dataclass(frozen=True)
class FrameworkRepository:
    """A clone with a work tree; what a server would hold."""

    folder: Path

    @classmethod
    def of_release(cls, site_packages: Path, package: str, folder: Path) -> FrameworkRepository:
        """A repository with one commit: the Python files of a released package, where its own repository has them."""
        shutil.copytree(site_packages / package, folder / "python" / package, ignore=IGNORED)
        git(folder, "init", "--quiet", "--initial-branch", "main")
        repository = cls(folder)
        repository.commit("The release")
        return repository

    def write(self, name: str, text: str) -> None:
        """Put a file into the work tree."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, message: str) -> str:
        """Commit the whole work tree; its SHA."""
        git(self.folder, "add", "--all", "--force")
        git(self.folder, "commit", "--quiet", "--allow-empty", "--message", message)
        return self.head

    @property
    def head(self) -> str:
        """The SHA of what is checked out."""
        return git(self.folder, "rev-parse", "HEAD")

    def branch(self, name: str, start: str = "main") -> None:
        """Start a branch and check it out."""
        git(self.folder, "checkout", "--quiet", "-B", name, start)

    def apply_example(self, patch: str) -> str:
        """Commit one of the example pull requests, whose paths are those of the released package."""
        git(self.folder, "apply", "--directory=python", str(ROOT / "examples" / patch))
        return self.commit(patch)

    def revert(self) -> str:
        """Commit the opposite of the last commit."""
        git(self.folder, "revert", "--no-edit", "HEAD")
        return self.head
