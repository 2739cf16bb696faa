"""Programs that once failed: a folder that later runs replay first, and that forgets what has passed for long.

::

    OP/DIGEST.PASSES.opdiff    a finding's program, in its smallest form, and in how many runs it has passed since

A run that finds a program's fault again sets its count to 0, one that compares it and finds nothing adds 1, and at
:data:`LONG` it is dropped. The count is in the name, so that every change is one rename: nothing is half written whatever
is killed, and of two runs at once each does all of its renames or finds that the other was first.

The folder may come from a cache: what is in it is validated like any program from outside, and bounded in size and number.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.atomic_file import write_atomically
from bot.oracle.finding import Finding
from bot.programs.op_groups import group_of
from bot.programs.program import ProgramError
from bot.programs.source import SourcedProgram
from bot.report.files import FileError, read_bounded_in, safe_name
from bot.report.program_reader import expanded_bytes, read_program
from bot.run_directory import Entry

LONG: Final = 20  # runs in a row that a program passes before it is dropped
MAX_BYTES: Final = 1 << 20  # of a program
MAX_EXPANDED_BYTES: Final = 64 << 20  # of its tensors, each written out
MAX_OF_AN_OP: Final = 50
MAX_OPS: Final = 2_000

_NAME: Final = re.compile(r"([0-9a-f]{16,128})\.(\d{1,4})\.opdiff", re.ASCII)


@dataclass(frozen=True)
class Kept:
    """One program of the folder, by its file."""

    folder: str
    file: str
    digest: str
    passes: int


@dataclass
class FailedPrograms:
    """The folder as one run sees it. ``writes``: whether this run may add to it and count in it."""

    path: Path
    writes: bool
    replayed: dict[str, Kept] = field(default_factory=dict[str, Kept])
    refused: int = 0

    def programs(self, groups: Collection[str] | None) -> Iterator[SourcedProgram]:
        """The programs of these op groups, those that failed last first; what cannot be read is left out and counted."""
        for op in self._folders(groups):
            for kept in self._files(op):
                try:
                    raw = read_bounded_in(self.path, {kept.file: MAX_BYTES}, (op,))[kept.file]
                    program, _ = read_program(raw, kept.digest)
                    allowed = _folder(group_of(program.op)) == op
                    if not allowed or expanded_bytes(program) > MAX_EXPANDED_BYTES:
                        raise ProgramError("it lies in another op's folder, or is too big")
                except (FileError, ProgramError, ValueError):
                    self.refused += 1
                    continue
                self.replayed[kept.digest] = kept
                yield SourcedProgram(raw, kept.digest, program.op)

    def keep(
        self,
        entries: Iterable[Entry],
        findings: Iterable[Finding],
        blobs: Mapping[str, bytes],
    ) -> None:
        """Count what passed, and add the findings' programs; nothing where this run may not write.

        ``blobs`` are the programs of the findings by digest. What a convention explains is no failure.
        """
        if not self.writes:
            return
        failed = {
            digest: finding.op
            for finding in findings
            if finding.verdict != "convention"
            for digest in (finding.program, *finding.programs)
        }
        for entry in entries:
            kept = self.replayed.get(entry.digest)
            if kept is not None and entry.digest in failed:
                self._count(kept, 0)
            elif kept is not None and not entry.mismatches and entry.counts.compared:
                self._count(kept, kept.passes + 1)
        for digest, blob in blobs.items():
            if digest in failed and digest not in self.replayed and len(blob) <= MAX_BYTES:
                self._add(_folder(failed[digest]), digest, blob)

    def notes(self) -> Iterator[str]:
        """For the report: what was replayed, and what was refused."""
        if self.replayed:
            count = len(self.replayed)
            yield (
                f"{count:,} program{'s' if count > 1 else ''} that failed in earlier runs "
                f"{'were' if count > 1 else 'was'} replayed first"
            )
        if self.refused:
            yield f"{self.refused:,} files of {self.path.name} are no programs of its ops, and were not run"

    def _folders(self, groups: Collection[str] | None) -> list[str]:
        if groups is not None:
            return sorted({_folder(group) for group in groups})
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self.path))[:MAX_OPS]  # noqa: PTH208
        return []

    def _files(self, op: str) -> list[Kept]:
        folder = self.path / op
        try:
            names = [] if folder.is_symlink() else [entry.name for entry in folder.iterdir()]
        except OSError:
            return []
        matches = [match for match in map(_NAME.fullmatch, names) if match]
        found = [Kept(op, match[0], match[1], int(match[2])) for match in matches]
        return sorted(found, key=lambda kept: (kept.passes, kept.digest))[:MAX_OF_AN_OP]

    def _count(self, kept: Kept, passes: int) -> None:
        file = self.path / kept.folder / kept.file
        with contextlib.suppress(FileNotFoundError):  # another run counted first
            if passes >= LONG:
                file.unlink()
            elif passes != kept.passes:
                file.rename(file.with_name(f"{kept.digest}.{passes}.opdiff"))

    def _add(self, op: str, digest: str, blob: bytes) -> None:
        """Add a program; in a full folder the one that has passed longest makes room."""
        there = self._files(op)
        if any(kept.digest == digest for kept in there) or (self.path / op).is_symlink():
            return
        for kept in there[MAX_OF_AN_OP - 1 :]:
            (self.path / op / kept.file).unlink(missing_ok=True)
        write_atomically(self.path / op / f"{digest}.0.opdiff", blob)


def _folder(op: str) -> str:
    return safe_name(op, 100)
