"""A ChangeSet read from a git repository by plumbing commands alone: nothing is checked out or executed."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from bot.changes.changeset import ChangedFile, ChangesError
from bot.changes.file_text import MAX_TEXT_BYTES, decode_text
from bot.changes.index.bounded import Bounded

HARDENING: Final = (
    "-c", "safe.directory=*",  # a container runs as another user; what could execute is off below
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.attributesFile=/dev/null",
    "-c", "diff.external=",
    "-c", "core.quotePath=false",
    "-c", "protocol.allow=never",
)  # fmt: skip
"""Settings in front of every git command, so that a hostile repository's own configuration starts nothing."""

DIFF_FLAGS: Final = (
    "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index",
    "--ignore-submodules=none",  # else git reads .gitmodules, which may be broken, or hide what changed
)  # fmt: skip
KEPT_CHARACTERS: Final = 32 << 20  # of texts in memory
SUBMODULE: Final = "160000"
SYMLINK: Final = "120000"
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return kept | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def _last_line(errors: bytes) -> str:
    """git's last words."""
    return (errors.decode(errors="replace").strip().splitlines() or ["no message"])[-1]


class GitChangeSet:
    """The diff merge-base(base, head)..head of a repository (with or without a work tree, shallow or not).

    Raises ChangesError when the folder is not a repository or a revision is not there.
    """

    def __init__(self, repository: Path, base: str, head: str) -> None:
        self.repository = repository
        self.notes: tuple[str, ...] = ()
        if not repository.is_dir():
            raise ChangesError(f"{repository} is not a folder; give --repo the path of a clone")
        self._open_repository()
        self.base_commit, self.head_revision = self._commit(base), self._commit(head)
        merge_base = self._try("merge-base", self.base_commit, self.head_revision)
        if merge_base is None:
            self.notes = (
                f"no merge base of {base} and {head} is in this clone (shallow?): compared {base} itself",
            )
        self.base_revision = merge_base.decode().strip() if merge_base else self.base_commit
        self._objects: _ObjectReader | None = None
        self._texts: Bounded[str, str | None] = Bounded(KEPT_CHARACTERS)

    def _open_repository(self) -> None:
        """Raise ChangesError unless git can read the repository, with git's own words where it is damaged."""
        done = self._run("rev-parse", "--git-dir")
        if done.returncode == 0:
            return
        said = _last_line(done.stderr)
        if "not a git repository" in said:
            raise ChangesError(
                f"{self.repository} is not a git repository; give --repo a clone, or use --patch and --source"
            )
        raise ChangesError(
            f"git cannot read the repository {self.repository}: {said}; repair it, or clone it anew"
        )

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", *HARDENING, "-C", str(self.repository), *arguments],
                stdin=subprocess.DEVNULL, capture_output=True, env=_environment(), check=False,
            )  # fmt: skip
        except OSError as error:
            raise ChangesError(
                f"git does not start ({error.strerror}): install git and have it on PATH, or use --patch and --source"
            ) from None

    def _try(self, *arguments: str) -> bytes | None:
        done = self._run(*arguments)
        return done.stdout if done.returncode == 0 else None

    def _output(self, *arguments: str) -> bytes:
        done = self._run(*arguments)
        if done.returncode != 0:
            said = _last_line(done.stderr)
            raise ChangesError(f"git {arguments[0]} in {self.repository} failed: {said}")
        return done.stdout

    def _commit(self, revision: str) -> str:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        found = None if "\0" in revision else self._try(*words, f"{revision}^{{commit}}")
        if found is None:
            raise ChangesError(
                f"no revision {revision!r} in {self.repository}; "
                f"fetch it first (git fetch origin {revision}) or name another one"
            )
        return found.decode().strip()

    def file_of_base(self, path: str, limit: int) -> bytes | None:
        """A file's bytes in the base commit itself (not the merge base), or None when it is not there.

        Raises ChangesError for a link, a folder, or more than ``limit`` bytes.
        """
        found = self._output("ls-tree", "-z", "--full-tree", self.base_commit, "--", path)
        if not found:
            return None
        mode, kind, name = found.split(b"\t", 1)[0].decode().split(" ", 2)
        where = f"{path} of {self.base_commit[:12]}"
        if kind != "blob" or mode == SYMLINK:
            raise ChangesError(f"{where} is not a plain file")
        size = self._output("cat-file", "-s", name)
        if int(size) > limit:
            raise ChangesError(f"{where} has more than the {limit} bytes that are read")
        return self._output("cat-file", "blob", name)

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        """Every changed file."""
        return self._files

    @cached_property
    def _files(self) -> tuple[ChangedFile, ...]:
        """Every changed file, in git's order."""
        revisions = (self.base_revision, self.head_revision)
        records = list(
            _raw_records(self._output("diff-tree", *DIFF_FLAGS, "--raw", "-z", *revisions))
        )
        patch = self._output("diff-tree", *DIFF_FLAGS, "-p", "-U0", "--submodule=short", *revisions)
        chunks = _patch_chunks(patch)
        return tuple(_changed_file(record, chunks) for record in records)

    def base_text(self, path: str) -> str | None:
        """The text of a file at the merge base, or None when it is not there or not text."""
        return self._text(self._base_blobs.get(path))

    def head_text(self, path: str) -> str | None:
        """The text of a file at the head, or None when it is not there or not text."""
        return self._text(self._head_blobs.get(path))

    def head_paths(self) -> tuple[str, ...]:
        """Every file (not a submodule or symbolic link) of the tree at the head."""
        return tuple(self._head_blobs)

    def head_blob(self, path: str) -> str | None:
        """The object name of a file's content at the head: what a cache may be keyed by."""
        return self._head_blobs.get(path)

    def base_blob(self, path: str) -> str | None:
        """The object name of a file's content at the merge base."""
        return self._base_blobs.get(path)

    def head_texts(self, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """Each path with its text at the head, in one go: for many files much faster than one by one."""
        blobs = self._head_blobs
        known = [path for path in paths if path in blobs]
        yield from ((path, None) for path in paths if path not in blobs)
        datas = _read_in_order(self.repository, [blobs[path] for path in known])
        for path, data in zip(known, datas, strict=True):
            yield path, None if data is None else decode_text(data)

    @property
    def identity(self) -> str:
        """What names the diff: results of the same code for the same identity are the same."""
        return f"git {self.base_revision} {self.head_revision}"

    @cached_property
    def _base_blobs(self) -> dict[str, str]:
        return self._blobs(self.base_revision)

    @cached_property
    def _head_blobs(self) -> dict[str, str]:
        return self._blobs(self.head_revision)

    def _blobs(self, revision: str) -> dict[str, str]:
        blobs: dict[str, str] = {}
        for record in self._output("ls-tree", "-r", "-z", "--full-tree", revision).split(b"\0"):
            meta, tab, path = record.partition(b"\t")
            if not tab:
                continue
            mode, _, name = meta.decode().split(" ", 2)
            if mode not in (SUBMODULE, SYMLINK):
                blobs[os.fsdecode(path)] = name
        return blobs

    def _text(self, blob: str | None) -> str | None:
        if not blob:
            return None
        if blob in self._texts:
            return self._texts.get(blob)
        if self._objects is None:
            self._objects = _ObjectReader(self.repository)
        data = self._objects.read(blob)
        text = None if data is None else decode_text(data)
        return self._texts.put(blob, text, len(text or "") + 64)

    def close(self) -> None:
        """End the reader process."""
        if self._objects is not None:
            self._objects.close()
            self._objects = None

    def __enter__(self) -> GitChangeSet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_objects", None) is not None:
            self.close()


def _cat_file(repository: Path, stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["git", *HARDENING, "-C", str(repository), "cat-file", "--batch"],
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(),
    )  # fmt: skip


def _next_object(stdout: IO[bytes]) -> bytes | None:
    """An object's bytes; None when the clone does not hold it (partial clones), or it is too large for a text."""
    fields = stdout.readline().split()
    if len(fields) != 3:
        return None
    size = int(fields[2])
    if size > MAX_TEXT_BYTES:
        while size > 0:
            size -= len(stdout.read(min(size, MAX_TEXT_BYTES))) or size
        stdout.read(1)
        return None
    data = stdout.read(size)
    stdout.read(1)
    return data


def _read_in_order(repository: Path, names: Sequence[str]) -> Iterator[bytes | None]:
    """Objects by name; git works on the next ones while the caller works on this one."""
    if not names:
        return
    with tempfile.TemporaryFile() as asked:  # a pipe would be full while git's answers wait
        asked.write("".join(f"{name}\n" for name in names).encode())
        asked.seek(0)
        process = _cat_file(repository, asked)
    stdout = process.stdout
    assert stdout is not None
    try:
        for _ in names:
            yield _next_object(stdout)
    finally:
        stdout.close()
        process.wait()


class _ObjectReader:
    """One ``git cat-file --batch`` that answers for every blob: a process per file would cost minutes."""

    def __init__(self, repository: Path) -> None:
        self._process = _cat_file(repository, subprocess.PIPE)

    def read(self, name: str) -> bytes | None:
        """An object's bytes, or None: see ``_next_object``."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(name.encode() + b"\n")
        stdin.flush()
        return _next_object(stdout)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


class _Record:
    """One line of ``git diff-tree --raw -z``."""

    def __init__(self, meta: bytes, paths: list[bytes]) -> None:
        old_mode, new_mode, _, _, status = meta.decode().lstrip(":").split(" ")
        self.status = status[0]
        self.submodule = SUBMODULE in (old_mode, new_mode)
        names = [os.fsdecode(path) for path in paths]
        self.old = None if self.status == "A" else names[0]
        self.new = None if self.status == "D" else names[-1]


def _raw_records(raw: bytes) -> Iterator[_Record]:
    fields = iter(raw.split(b"\0"))
    for meta in fields:
        if not meta.startswith(b":"):
            continue
        paths = [next(fields)]
        if meta.rsplit(b" ", 1)[-1][:1] in b"RC":
            paths.append(next(fields))
        yield _Record(meta, paths)


def _patch_chunks(patch: bytes) -> Iterator[list[bytes]]:
    """The patch's lines, one list per ``diff --git``; no content line can start with that word."""
    chunk: list[bytes] | None = None
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            if chunk is not None:
                yield chunk
            chunk = []
        elif chunk is not None:
            chunk.append(line)
    if chunk is not None:
        yield chunk


def _changed_file(record: _Record, chunks: Iterator[list[bytes]]) -> ChangedFile:
    # A change of type (file to link) is shown as a deletion and an addition.
    count = 2 if record.status == "T" else 1
    nothing: list[bytes] = []
    lines = [line for _ in range(count) for line in next(chunks, nothing)]
    old: list[int] = []
    new: list[int] = []
    for line in lines:
        match = _HUNK.match(line)
        if match:
            first, size, new_first, new_size = (int(g) if g else 1 for g in match.groups())
            old.extend(range(first, first + size))
            new.extend(range(new_first, new_first + new_size))
    binary = record.submodule or any(line.startswith(b"Binary files ") for line in lines)
    return ChangedFile(record.old, record.new, tuple(old), tuple(new), binary, record.submodule)
