"""A bound on how long a compiler may take: it is coverage that a compiler is slow, not a hang of what it compiled.

By an alarm of the process, because compilers are Python that calls other programs and waits for them. What hangs
inside a framework's own C++ does not hear it; that is killed from outside, as any hang is.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Callable, Optional, TypeVar

from framework import UnsupportedError

Result = TypeVar("Result")


class _ExpiredError(BaseException):
    """Beyond Exception: compilers catch those, and go on some other way."""


def within(seconds: float, action: Callable[[], Result]) -> Result:
    """What ``action`` gives. Raises UnsupportedError when it takes longer; for the main thread."""
    if seconds <= 0:
        return action()
    expired = False

    def expire(_number: int, _frame: Optional[FrameType]) -> None:
        nonlocal expired
        expired = True
        raise _ExpiredError

    before = signal.signal(signal.SIGALRM, expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return action()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException:
        # Whatever it was turned into on its way.
        if expired:
            raise UnsupportedError("compile took over %g s" % seconds) from None
        raise
    finally:
        signal.signal(signal.SIGALRM, before)
