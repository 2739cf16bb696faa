"""A folder of folders, each made once under its key, whatever dies while it is made.

``KEY/`` is there whole or not at all: it is built in ``.building/`` and renamed. Locks are ``flock`` locks, which the
kernel drops when their last holder dies, so nothing is ever locked by the dead:

``.locks/KEY.build``  held, alone, by who makes or removes the folder, and by the programs it starts for that
``.locks/KEY.use``    held, shared, by everyone who was given the folder; its time of change is the last use
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

Build = Callable[[Path, int], None]
"""Fills a new, empty folder; the descriptor keeps the lock and is to be handed on to programs that write there."""


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


@contextlib.contextmanager
def _locked(path: Path, waiting: Callable[[], None] | None) -> Generator[int | None]:
    """Hold a lock alone. ``waiting`` is called before a wait; without it nothing is waited for and None given."""
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                yield None
                return
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _no_message() -> None:
    return


class FolderCache:
    """Folders by key below ``root``. A folder that was given out is not removed by anyone until :meth:`close`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._leases: dict[str, int] = {}

    def open(self, key: str, usable: Callable[[Path], bool] = Path.is_dir) -> Path | None:
        """The folder of a key, kept from removal, or None when it is not there or not ``usable``."""
        folder = self.root / key
        if not folder.is_dir():
            return None
        self._lease(key)
        if usable(folder):
            return folder
        self._drop(key)
        return None

    def make(
        self,
        key: str,
        build: Build,
        usable: Callable[[Path], bool] = Path.is_dir,
        waiting: Callable[[], None] = _no_message,
    ) -> Path:
        """The folder of a key, built by ``build`` unless it is there and ``usable``; kept from removal.

        ``waiting`` is called once when someone else is making it. What ``build`` raises goes through, and leaves
        nothing behind.
        """
        found = self.open(key, usable)
        if found is not None:
            return found
        with _locked(self._lock_file(key, "build"), waiting) as descriptor:
            assert descriptor is not None
            found = self.open(key, usable)
            if found is not None:
                return found
            self._sweep_key(key)
            self.sweep()
            self._discard(self.root / key)
            building = self._hidden("building")
            temporary = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=building))
            try:
                temporary.chmod(0o755)
                build(temporary, descriptor)
                temporary.rename(self.root / key)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            self._lease(key)
        return self.root / key

    def stored_keys(self) -> tuple[str, ...]:
        """The keys of all folders that are there."""
        if not self.root.is_dir():
            return ()
        return tuple(sorted(p.name for p in self.root.iterdir() if p.is_dir() and p.name[0] != "."))

    def last_use(self, key: str) -> float:
        """When the folder was last given to anyone, in seconds since the epoch; 0 when never."""
        try:
            return self._lock_file(key, "use").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def remove(self, key: str) -> bool:
        """Remove a folder unless someone uses or makes it; whether it was removed."""
        with _locked(self._lock_file(key, "build"), None) as build:
            if build is None:
                return False
            with _locked(self._lock_file(key, "use"), None) as use:
                if use is None:
                    return False
                removed = self._set_aside(self.root / key)
            if removed is not None:
                shutil.rmtree(removed, ignore_errors=True)
            return removed is not None

    def sweep(self) -> int:
        """Remove what builds and removals that died left behind; how many folders that were."""
        count = 0
        if not self.root.is_dir():
            return 0
        leftover = {path.name.rpartition(".")[0] for path in self._hidden("building").iterdir()}
        for key in leftover:
            with _locked(self._lock_file(key, "build"), None) as descriptor:
                if descriptor is not None:
                    count += self._sweep_key(key)
        for path in self._hidden("removing").iterdir():
            shutil.rmtree(path, ignore_errors=True)
            count += 1
        return count

    def close(self) -> None:
        """Let go of every folder that was given out."""
        for key in tuple(self._leases):
            self._drop(key)

    def _hidden(self, name: str) -> Path:
        folder = self.root / f".{name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _lock_file(self, key: str, kind: str) -> Path:
        return self._hidden("locks") / f"{key}.{kind}"

    def _lease(self, key: str) -> None:
        """Keep a folder from removal. A cache that cannot be written (part of an image) has nobody who removes."""
        try:
            if key not in self._leases:
                descriptor = _open(self._lock_file(key, "use"))
                self._leases[key] = descriptor
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            os.utime(self._leases[key])
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise

    def _drop(self, key: str) -> None:
        descriptor = self._leases.pop(key, None)
        if descriptor is not None:
            os.close(descriptor)

    def _sweep_key(self, key: str) -> int:
        """Remove a key's half-made folders; the caller holds its build lock, so nobody writes to them."""
        leftover = list(self._hidden("building").glob(f"{key}.*"))
        for path in leftover:
            shutil.rmtree(path, ignore_errors=True)
        return len(leftover)

    def _set_aside(self, folder: Path) -> Path | None:
        """Take a folder's name away in one step; where it went, or None when there was none."""
        aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=self._hidden("removing")))
        try:
            return folder.rename(aside / "folder").parent
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):  # another process may have swept it
                aside.rmdir()
            return None

    def _discard(self, folder: Path) -> None:
        aside = self._set_aside(folder)
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
