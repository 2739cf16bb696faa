"""Three-way merge of one file: a pull request's change of its base, carried over to the released text."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_MARKER = 61  # longer than any line of marker characters in real sources
_SECONDS = 60.0


class MergeError(Exception):
    """git could not merge; one line."""


@dataclass(frozen=True)
class Rejected:
    """A hunk that does not apply: its first line on the head side (1-based) and what it would have written."""

    line: int
    text: str


@dataclass(frozen=True)
class Merged:
    """The released text with every hunk that applies; the others in the order of the file."""

    text: str
    rejected: tuple[Rejected, ...] = ()


def three_way(released: str, base: str, head: str) -> Merged:
    """Apply the change base..head to the released text; where both changed the same lines the release stays.

    Raises MergeError when git is missing or fails.
    """
    if released == base or base == head:
        return Merged(head if released == base else released)
    return _without_conflicts(_merge_file(released, base, head), head)


def _merge_file(released: str, base: str, head: str) -> str:
    """git's merge of three texts, conflicts marked in diff3 style."""
    with tempfile.TemporaryDirectory(prefix="opdiff-merge-") as name:
        folder = Path(name)
        paths = [folder / "released", folder / "base", folder / "head"]
        for path, text in zip(paths, (released, base, head), strict=True):
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
        command = ["git", "merge-file", "-p", "--quiet", "--diff3", f"--marker-size={_MARKER}"]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        environ |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
        environ["GIT_CEILING_DIRECTORIES"] = str(folder.parent)
        try:
            done = subprocess.run(
                [*command, *(path.name for path in paths)],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except OSError as error:
            raise MergeError(f"git does not start: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise MergeError(f"git merge-file does not end in {_SECONDS:.0f} s") from None
    # The status counts conflicts up to 127; errors lie above.
    if not 0 <= done.returncode <= 127:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise MergeError(f"git merge-file: {words[-1]}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _find(block: Sequence[str], lines: Sequence[str], start: int) -> int:
    """Where a block of lines lies in a text, from a line on; the start when it is nowhere."""
    for index in range(start, len(lines) - len(block) + 1):
        if list(lines[index : index + len(block)]) == list(block):
            return index
    return start


def _marks(character: str) -> Callable[[str], bool]:
    prefix = character * _MARKER
    return lambda line: line.startswith(prefix)


def _without_conflicts(merged: str, head: str) -> Merged:
    """The merged text with the released side of each conflict, and the conflicts' head sides."""
    opens, splits, parts, closes = (_marks(character) for character in "<|=>")
    head_lines = head.splitlines(keepends=True)
    kept: list[str] = []
    wanted: list[str] = []
    rejected: list[Rejected] = []
    side, position = "both", 0
    for line in merged.splitlines(keepends=True):
        if opens(line):
            side, wanted = "released", []
        elif side == "released" and splits(line):
            side = "base"
        elif side == "base" and parts(line):
            side = "head"
        elif side == "head" and closes(line):
            at = _find(wanted, head_lines, position)
            rejected.append(Rejected(at + 1, "".join(wanted)))
            side, position = "both", at + len(wanted)
        elif side == "head":
            wanted.append(line)
        elif side != "base":
            kept.append(line)
    return Merged("".join(kept), tuple(rejected))
