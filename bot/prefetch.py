"""Work ahead on another thread: the next programs are traced while the present ones run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

_STOP_POLL_SECONDS: Final = 0.2
T = TypeVar("T")


class Prefetched(Generic[T]):
    """Iterate over ``items`` with up to ``depth`` of them made ahead by one background thread.

    An exception of the items' own iterator is raised here, at its place in the order. ``close`` ends the thread;
    the items' iterator is closed on that thread.
    """

    def __init__(self, items: Iterable[T], depth: int = 256) -> None:
        self._queue: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._work, args=(items,), name="prefetch", daemon=True
        )
        self._thread.start()

    def _work(self, items: Iterable[T]) -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not self._put(("item", item)):
                    return
            self._put(("end", None))
        except BaseException as error:
            self._put(("error", error))
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    def _put(self, entry: tuple[str, T | BaseException | None]) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(entry, timeout=_STOP_POLL_SECONDS)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[T]:
        while not self._stopped.is_set():
            kind, value = self._queue.get()
            if kind == "item":
                yield value  # pyright: ignore[reportReturnType]
                continue
            self._stopped.set()  # nothing comes after it
            if kind == "error":
                assert isinstance(value, BaseException)
                raise value

    def close(self) -> None:
        """Stop the thread; items made ahead are dropped."""
        self._stopped.set()
        self._thread.join(timeout=30)
