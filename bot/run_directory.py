"""The run directory: what a run writes as it goes, so that nothing measured is lost and any run can be resumed.

::

    plan.json            the plan, written before anything runs
    builds.json          the digests of the targets' environments, written when they are there
    journal.jsonl        one line per compared program, appended as it is measured
    failing/DIGEST.opdiff   the blob of every program with a mismatch
    findings/ report.md results.json   written at the end

A line that was cut short (kill -9, a full disk) is dropped when read, and its program runs again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from bot.atomic_file import write_atomically
from bot.errors import InterruptedRunError, OpDiffError
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.finding import Mismatch
from bot.plan import PLAN_VERSION, Plan
from bot.targets.outcome import Death

_MISMATCHES = TypeAdapter(tuple[Mismatch, ...])
_STATUSES = TypeAdapter(tuple[TargetStatus, ...])
_COUNTS = TypeAdapter(Counts)
_COUNTED = tuple(field.name for field in fields(Counts))
_DEATHS = TypeAdapter(tuple[Death | None, ...])
MAX_LINE_BYTES = 16 << 20


@dataclass(frozen=True)
class Entry:
    """What became of one program: how each target ended (in the plan's order), what was compared, what differs."""

    digest: str
    op: str
    statuses: tuple[TargetStatus, ...]
    counts: Counts
    mismatches: tuple[Mismatch, ...] = ()
    deaths: tuple[Death | None, ...] = ()  # one per target; empty when nobody died

    def to_line(self) -> bytes:
        """One line of JSON; counts of nothing are left out."""
        row: dict[str, Any] = {
            "digest": self.digest,
            "op": self.op,
            "statuses": [[status.status, status.reason] for status in self.statuses],
            "counts": {name: value for name in _COUNTED if (value := getattr(self.counts, name))},
        }
        if self.mismatches:
            row["mismatches"] = _MISMATCHES.dump_python(self.mismatches, mode="json")
        if self.deaths:
            row["deaths"] = _DEATHS.dump_python(self.deaths, mode="json")
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Entry:
        """Read a line back. Raises ValueError for one that was cut short."""
        row = json.loads(line)
        return Entry(
            digest=str(row["digest"]),
            op=str(row["op"]),
            statuses=_STATUSES.validate_python(
                [{"status": status, "reason": reason} for status, reason in row["statuses"]]
            ),
            counts=_COUNTS.validate_python(row["counts"]),
            mismatches=_MISMATCHES.validate_python(row.get("mismatches", ())),
            deaths=_DEATHS.validate_python(row.get("deaths", ())),
        )


class RunDirectory:
    """A run's folder, locked while it is open. Raises OpDiffError when it is in use, or not a run's.

    An older run's files stay as they are until :meth:`begin`: a target that does not start must not cost its report.
    """

    def __init__(self, path: Path, plan: Plan, lock: BinaryIO) -> None:
        self.path = path
        self.plan = plan
        self._lock = lock
        self._failing = path / "failing"
        self._journal: BinaryIO | None = None
        self._replaces = False  # whether an older run's files are still here

    def begin(self) -> None:
        """Everything is ready to run: an older run's files go. Those of a resumed run stay."""
        if self._replaces:
            _clear(self.path)
            write_atomically(self.path / "plan.json", self.plan.model_dump_json(indent=1).encode())
            self._replaces = False
        if self._journal is None:
            self._journal = (self.path / "journal.jsonl").open("ab", buffering=0)
            self._failing.mkdir(exist_ok=True)

    @classmethod
    def create(cls, path: Path, plan: Plan) -> RunDirectory:
        """Start a run in a new or empty folder, or over an older run's. Raises OpDiffError for any other folder."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise OpDiffError(f"{path} is, or lies below, a file: give a folder as --out") from None
        except OSError as error:
            raise OpDiffError(
                f"{path} cannot be made: {error.strerror}: give another --out"
            ) from None
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise OpDiffError(f"{path} cannot be read and written: give another --out")
        _refuse_links(path)
        if not _is_plan(path / "plan.json") and not all(map(_is_start_of_run, path.iterdir())):
            raise OpDiffError(
                f"{path} is not empty and holds no OpDiff run: give another --out, or empty it"
            )
        directory = cls(path, plan, _lock(path))
        directory._replaces = True
        if not (path / "plan.json").exists():
            directory.begin()
        return directory

    @classmethod
    def resume(cls, path: Path) -> RunDirectory:
        """Open an interrupted run's folder. Raises OpDiffError when it has none, or one of another version."""
        file = path / "plan.json"
        if not file.is_file():
            raise OpDiffError(f"{path} holds no OpDiff run to resume (no plan.json)")
        try:
            document = json.loads(file.read_bytes())
            if document.get("version") != PLAN_VERSION:
                raise OpDiffError(
                    f"{file} has plan version {document.get('version')!r}; this opdiff reads {PLAN_VERSION}: start anew"
                )
            plan = Plan.model_validate(document)
        except (ValueError, AttributeError, ValidationError, RecursionError) as error:
            raise OpDiffError(f"{file} is not a plan: {str(error).splitlines()[0]}") from None
        _refuse_links(path)
        lock = _lock(path)
        _drop_torn_line(path / "journal.jsonl")
        _sweep(path)
        _sweep(path / "failing")
        directory = cls(path, plan, lock)
        directory.begin()
        return directory

    def keep_builds(self, digests: Sequence[str]) -> None:
        """Write down which builds are measured. Raises OpDiffError when the journal is of others.

        A plan names a revision or a wheel's path, and what lies there can change between a run and its resumption.
        """
        self.begin()
        file = self.path / "builds.json"
        text = json.dumps(list(digests)).encode()
        if file.is_file() and file.read_bytes() != text:
            raise OpDiffError(
                f"{self.path} was begun with other builds of its targets, so what it holds does not count for these: "
                "start anew"
            )
        write_atomically(file, text)

    def record(self, entry: Entry, blob: bytes) -> None:
        """Append an entry; a failing program's blob is on disk before its line is."""
        self.begin()
        if entry.mismatches:
            write_atomically(self._failing / f"{entry.digest}.opdiff", blob)
        line = memoryview(entry.to_line())
        assert self._journal is not None
        while line:  # on a nearly full disk a write takes what fits; the next one raises
            line = line[self._journal.write(line) :]

    def keep(self, digest: str, blob: bytes) -> None:
        """Keep the blob of a program that was made while judging; the journal does not name it."""
        self.begin()
        write_atomically(self._failing / f"{digest}.opdiff", blob)

    def entries(self) -> Iterator[Entry]:
        """Every whole line of the journal, oldest first; none of an older run's."""
        file = self.path / "journal.jsonl"
        if self._replaces or not file.is_file():
            return
        with file.open("rb") as lines:
            for line in lines:
                if len(line) > MAX_LINE_BYTES:
                    continue
                try:
                    entry = Entry.from_line(line)
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
                if len(entry.statuses) == len(self.plan.targets):
                    yield entry

    def failing_blob(self, digest: str) -> bytes | None:
        """A failing program's blob, or None when it is not there."""
        file = self._failing / f"{digest}.opdiff"
        return file.read_bytes() if file.is_file() else None

    def close(self) -> None:
        """Release the lock."""
        if self._journal is not None:
            self._journal.close()
        self._lock.close()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return
        if self._replaces:
            raise InterruptedRunError(
                f"interrupted before anything ran; {self.path} still holds the older run"
            ) from None
        paths = " --allow-paths" if self.plan.paths else ""
        raise InterruptedRunError(
            "interrupted; what was measured is kept: go on with "
            f"opdiff run --resume {shlex.quote(str(self.path))}{paths}"
        ) from None


def _is_plan(file: Path) -> bool:
    """Whether a file is a run's plan, of any version: what it lies beside is deleted for a new run."""
    try:
        fields = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and {"version", "command", "targets"} <= set(
        cast("dict[str, Any]", fields)
    )


def _refuse_links(path: Path) -> None:
    """Raise OpDiffError where a link would lead a run's files out of its folder.

    A pull request may hold a folder that looks like an older run's, at the place where reports go by default.
    """
    for name in (".lock", "journal.jsonl", "failing", "findings"):
        if (path / name).is_symlink():
            raise OpDiffError(f"{path / name} is a symbolic link: remove it, or give another --out")


def _is_start_of_run(entry: Path) -> bool:
    """Whether a folder's entry is what a run leaves that ended before its plan was written."""
    return entry.name == ".lock" or _is_unfinished(entry)


def _is_unfinished(entry: Path) -> bool:
    return entry.name.startswith(".") and entry.name.endswith(".tmp") and entry.is_file()


def _clear(path: Path) -> None:
    """Remove a run's files."""
    for name in ("journal.jsonl", "builds.json", "results.json", "report.md"):
        (path / name).unlink(missing_ok=True)
    for name in ("failing", "findings"):
        shutil.rmtree(path / name, ignore_errors=True)
    _sweep(path)


def _sweep(folder: Path) -> None:
    """Remove what a killed run was writing."""
    if folder.is_dir():
        for entry in filter(_is_unfinished, list(folder.iterdir())):
            entry.unlink()


def _lock(path: Path) -> BinaryIO:
    lock = (path / ".lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise OpDiffError(
            f"another opdiff is running in {path}: wait for it, or give another --out"
        ) from None
    return lock


def _drop_torn_line(journal: Path) -> None:
    """Cut a last line that has no newline, so that the next line starts on its own."""
    if not journal.is_file():
        return
    with journal.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        tail = min(size, MAX_LINE_BYTES)
        file.seek(size - tail)
        end = file.read(tail).rfind(b"\n")
        if end + 1 != tail:
            file.truncate(size - tail + end + 1)
