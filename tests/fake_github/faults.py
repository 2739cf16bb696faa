"""Faults: which call fails, and how."""

from __future__ import annotations

import re
from enum import StrEnum

from pydantic import Field

from .exchange import DOCUMENTATION, Reply
from .model import Model


class Way(StrEnum):
    """How a call fails. All but ``slow`` and ``cut-after`` leave the state as it was, except that
    ``truncated`` and ``malformed`` spoil the answer to a call that was carried out."""

    TOO_MANY_REQUESTS = "429"
    SECONDARY_LIMIT = "secondary-limit"
    PRIMARY_LIMIT = "primary-limit"
    SERVER_ERROR = "500"
    BAD_GATEWAY = "502"
    UNAVAILABLE = "503"
    CUT_BEFORE = "cut-before"
    CUT_AFTER = "cut-after"
    SLOW = "slow"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"


class Fault(Model):
    """The ``nth`` to ``nth + times - 1``-th call from now on that matches fails in ``way``.

    ``path`` is a regular expression searched in the path (without the Enterprise prefix); ``method``
    and ``path`` left out match every call, downloads of artifacts (``/blob/ID``) too.
    """

    way: Way
    method: str | None = None
    path: str | None = None
    nth: int = Field(default=1, ge=1)
    times: int = Field(default=1, ge=1)
    retry_after: int | None = Field(default=1, description="seconds; None: no such header")
    reset_in: int = Field(default=1, description="seconds until the primary limit is lifted")
    seconds: float = Field(default=1.0, description="how long a slow answer takes")
    seen: int = Field(default=0, description="matching calls so far")

    def strikes(self, method: str, path: str) -> bool:
        """Whether this call fails; counts it."""
        if self.method not in (None, method) or not re.search(self.path or "", path):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times

    @property
    def spent(self) -> bool:
        """Whether no later call can fail by this."""
        return self.seen >= self.nth + self.times - 1


def refusal(fault: Fault, now: float) -> Reply | None:
    """The answer that a call gets in place of being carried out; None when it is carried out, or
    gets no answer. ``now``: seconds since 1970."""
    limited = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    secondary = (
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    )
    match fault.way:
        case Way.TOO_MANY_REQUESTS:
            return _error(429, secondary, limited)
        case Way.SECONDARY_LIMIT:
            return _error(403, secondary, limited)
        case Way.PRIMARY_LIMIT:
            return primary_limit(int(now) + fault.reset_in)
        case Way.SERVER_ERROR:
            return _error(500, "Server Error", {})
        case Way.BAD_GATEWAY:
            return Reply(502, b"<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
        case Way.UNAVAILABLE:
            return Reply(503, b"<html><h1>Unicorn!</h1></html>", content_type="text/html")
        case _:
            return None


def primary_limit(reset: int) -> Reply:
    """The answer when a token's calls of the hour are used up; ``reset``: seconds since 1970."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)}
    return _error(403, "API rate limit exceeded for installation ID 1.", headers)


def _error(status: int, message: str, headers: dict[str, str]) -> Reply:
    body = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status)}
    return Reply(status, body, headers)
