from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bot.targets.folder_cache import FolderCache

_BUILD_FOREVER = """
import sys, time
from pathlib import Path
from bot.targets.folder_cache import FolderCache
def build(folder, lock):
    (folder / "half").write_text("x")
    print("building", flush=True)
    time.sleep(600)
FolderCache(Path(sys.argv[1])).make("key", build)
"""
_USE_FOREVER = """
import sys, time
from pathlib import Path
from bot.targets.folder_cache import FolderCache
cache = FolderCache(Path(sys.argv[1]))
assert cache.open("key") is not None
print("using", flush=True)
time.sleep(600)
"""


def fill(folder: Path, lock: int) -> None:
    (folder / "whole").write_text("x")


def started(script: str, root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def visible(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def hidden(root: Path) -> list[Path]:
    return [p for kind in (".building", ".removing") for p in (root / kind).glob("*")]


def test_a_folder_is_built_once_and_then_found(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path)
    assert cache.open("key") is None
    folder = cache.make("key", fill)
    assert (folder / "whole").is_file()
    assert folder.stat().st_mode & 0o777 == 0o755
    assert cache.make("key", lambda *_: pytest.fail("built twice")) == folder
    assert cache.open("key") == folder
    assert cache.stored_keys() == ("key",)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_build_that_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def build(folder: Path, lock: int) -> None:
        fill(folder, lock)
        raise error

    with pytest.raises(error):
        FolderCache(tmp_path).make("key", build)
    assert visible(tmp_path) == hidden(tmp_path) == []
    FolderCache(tmp_path).make("key", fill)


def test_a_killed_build_leaves_nothing_that_counts_and_does_not_block(tmp_path: Path) -> None:
    end(started(_BUILD_FOREVER, tmp_path))
    assert visible(tmp_path) == []
    assert len(hidden(tmp_path)) == 1
    folder = FolderCache(tmp_path).make("key", fill)
    assert (folder / "whole").is_file()
    assert not (folder / "half").exists()
    assert hidden(tmp_path) == []


def test_sweep_removes_what_the_dead_left_and_not_what_the_living_make(tmp_path: Path) -> None:
    end(started(_BUILD_FOREVER, tmp_path))
    cache = FolderCache(tmp_path)
    assert cache.sweep() == 1
    alive = started(_BUILD_FOREVER, tmp_path)
    try:
        assert cache.sweep() == 0
        assert not cache.remove("key")
        assert len(hidden(tmp_path)) == 1
    finally:
        end(alive)


def test_making_one_folder_removes_what_a_killed_build_of_another_left(tmp_path: Path) -> None:
    end(started(_BUILD_FOREVER, tmp_path))
    FolderCache(tmp_path).make("another", fill)
    assert visible(tmp_path) == ["another"]
    assert hidden(tmp_path) == []


def test_a_lock_outlives_the_bot_with_a_program_that_it_started(tmp_path: Path) -> None:
    def build(folder: Path, lock: int) -> None:
        fill(folder, lock)
        script = "import time; print(flush=True); time.sleep(1)"
        child = subprocess.Popen(
            [sys.executable, "-c", script], pass_fds=[lock], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        children.append(child)
        raise RuntimeError("the bot dies")

    children: list[subprocess.Popen[bytes]] = []
    with pytest.raises(RuntimeError):
        FolderCache(tmp_path).make("key", build)
    waited: list[bool] = []
    FolderCache(tmp_path).make("key", fill, waiting=lambda: waited.append(True))
    assert waited == [True]
    assert children[0].wait(0.5) == 0
    children[0].communicate()


def test_many_at_once_build_one(tmp_path: Path) -> None:
    builds: list[int] = []
    found: list[Path] = []

    def build(folder: Path, lock: int) -> None:
        builds.append(1)
        time.sleep(0.2)
        fill(folder, lock)

    def make() -> None:
        found.append(FolderCache(tmp_path).make("key", build))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builds == [1]
    assert found == [tmp_path / "key"] * 8


def test_what_someone_uses_is_not_removed(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path)
    folder = cache.make("key", fill)
    cache.close()
    user = started(_USE_FOREVER, tmp_path)
    try:
        assert not cache.remove("key")
        assert (folder / "whole").is_file()
    finally:
        end(user)
    assert cache.remove("key")
    assert visible(tmp_path) == hidden(tmp_path) == []
    assert not cache.remove("key")


def test_a_folder_that_is_not_usable_is_built_anew(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path)
    folder = cache.make("key", lambda folder, _: (folder / "damaged").touch())
    cache.close()
    assert cache.open("key", lambda path: (path / "whole").is_file()) is None
    again = cache.make("key", fill, usable=lambda path: (path / "whole").is_file())
    assert again == folder
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_the_last_use_is_when_it_was_last_given_out(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path)
    assert cache.last_use("key") == 0.0
    before = time.time() - 1
    cache.make("key", fill)
    cache.close()
    assert cache.last_use("key") >= before
    os.utime(tmp_path / ".locks/key.use", (1000, 1000))
    assert cache.last_use("key") == 1000
    cache.open("key")
    assert cache.last_use("key") >= before


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_cache_that_cannot_be_written_still_gives_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = FolderCache(tmp_path).make("key", fill)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    cache = FolderCache(tmp_path)
    assert cache.open("key") == folder
    cache.close()
