"""GitHub's REST API: paced, patient, and never twice.

PyGithub carries the calls (addresses, authorization, errors); this module decides when a call is made again:

- A read is repeated after a rate limit, a server's error, a cut, slow or truncated answer.
- A write is made once. When it fails in a way that may have been carried out, :meth:`Client.settle` looks again at
  what is there before anything is written, so that nothing is posted twice.
- Writes are a second apart, and limits are honoured: ``retry-after``, a primary limit's reset, and a minute and
  more for a secondary limit (docs.github.com, "Best practices for using the REST API").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote, urlsplit

import requests
from github import Auth
from github.GithubException import GithubException
from github.Requester import Requester
from pydantic import BaseModel, ConfigDict, ValidationError

from bot.errors import OpDiffError
from bot.report.escape import visible
from bot.report.untrusted_json import first_problem

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

SECONDS_BETWEEN_WRITES: Final = 1.0
TIMEOUT: Final = 30.0
"""Seconds to connect, and between two reads of an answer."""
ATTEMPTS: Final = 7
FIRST_BACKOFF: Final = 2.0
SECONDARY_BACKOFF: Final = 60.0
MAX_WAIT: Final = 15 * 60.0
"""The longest wait for one limit, in seconds."""
PATIENCE: Final = 30 * 60.0
"""All waits of a client together, in seconds."""
PAGE: Final = 100
MAX_PAGES: Final = 300
API_VERSION: Final = "2022-11-28"
NO_PERMISSION: Final = "Resource not accessible"
"""What GitHub says of a call that the token's permissions do not allow."""
DEFAULT_API: Final = "https://api.github.com"


class ApiModel(BaseModel):
    """What is used of an API's answer; the rest is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ApiError(OpDiffError):
    """GitHub refused, or its answer makes no sense. ``status`` is 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotFoundError(ApiError):
    """There is no such thing, or the token may not see it."""


class TooManyPagesError(ApiError):
    """A list is longer than is read."""


class UnsettledError(ApiError):
    """The call failed and may be made again after ``wait`` seconds; whether a write was carried out is not known."""

    def __init__(self, message: str, status: int, wait: float | None) -> None:
        super().__init__(message, status)
        self.wait = wait


class GaveUpError(ApiError):
    """A limit or a fault lasted longer than is waited for: ``status`` says nothing of the call itself."""


@dataclass(frozen=True)
class Clock:
    """Where the time comes from: seconds since 1970, and a way to let them pass."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


class Client:
    """One repository through the API. Not for use by several threads."""

    def __init__(
        self,
        requester: Requester,
        repository: str,
        token: str,
        clock: Clock,
        timeout: float,
        patience: float,
    ) -> None:
        self.repository = repository
        self.clock = clock
        self.timeout = timeout
        self.api_url = requester.base_url
        self._requester = requester
        self._token = token
        self._patience = patience
        self._last_write: float | None = None
        self._waited = 0.0

    def __repr__(self) -> str:
        return f"Client({self.repository!r})"

    def path(self, *parts: str | int) -> str:
        """``/repos/OWNER/NAME/part/part``, each part quoted."""
        quoted = "/".join(quote(str(part), safe="") for part in parts)
        return f"/repos/{self.repository}" + (f"/{quoted}" if quoted else "")

    def authorization(self) -> dict[str, str]:
        """The headers of a call that another library makes to the API's own host."""
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def get(
        self, model: type[M], path: str, parameters: Mapping[str, str | int] | None = None
    ) -> M:
        """Read one thing, repeated while GitHub cannot answer. Raises NotFoundError, ApiError."""
        _, answer = self.patiently(lambda: self._call("GET", path, parameters))
        return self.parse(model, answer, path)

    def pages(
        self,
        model: type[M],
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        key: str | None = None,
    ) -> Iterator[M]:
        """Every item of a list, page by page; ``key`` where the list is in an object. Raises ApiError."""
        for page in range(1, MAX_PAGES + 1):
            wanted = {**(parameters or {}), "per_page": PAGE, "page": page}
            headers, answer = self.patiently(lambda wanted=wanted: self._call("GET", path, wanted))
            items = answer if key is None else _object(answer).get(key)
            if not isinstance(items, list):
                raise ApiError(f"GitHub's answer to {path} is not a list")
            for item in cast("list[Any]", items):
                yield self.parse(model, item, path)
            if 'rel="next"' not in str(headers.get("link", "")):
                return
        raise TooManyPagesError(f"{path} has more than {MAX_PAGES} pages")

    def write(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Write once. Raises UnsettledError when it may or may not have been carried out: use it within :meth:`settle`."""
        self._pace()
        try:
            return self._call(verb, path, body=body)[1]
        finally:
            self._last_write = self.clock.now()

    def settle(self, step: Callable[[], T | None]) -> T:
        """Call ``step`` until it returns something. A step looks at what is there and writes at most once.

        After a write it returns None, so that the next call sees what came of it. The pause between two writes comes
        before the look, not between look and write, so that what was seen still holds when it is written, and what
        another job wrote at the same moment is seen by the next look. Raises ApiError when it won't settle.
        """
        for _ in range(4 * ATTEMPTS):
            self._pace()
            settled = self.patiently(step)
            if settled is not None:
                return settled
        raise ApiError("what was written to GitHub is changed again and again by somebody else")

    def patiently(self, call: Callable[[], T]) -> T:
        """Make a call again after each failure that may pass. Raises ApiError."""
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except UnsettledError as error:
                if attempt == ATTEMPTS - 1:
                    raise GaveUpError(f"{error} ({ATTEMPTS} times)", error.status) from None
                self._wait(error, attempt)
        raise AssertionError("unreachable")

    def _pace(self) -> None:
        """Wait until a write may be made."""
        if self._last_write is None:
            return
        early = self._last_write + SECONDS_BETWEEN_WRITES - self.clock.now()
        if early > 0:
            self.clock.sleep(min(early, SECONDS_BETWEEN_WRITES))

    def _wait(self, error: UnsettledError, attempt: int) -> None:
        wait = FIRST_BACKOFF * 2**attempt if error.wait is None else error.wait
        if wait > MAX_WAIT or self._waited + wait > self._patience:
            raise GaveUpError(
                f"{error}; GitHub asks to wait {wait:.0f} s, which is too long: run the job again later",
                error.status,
            ) from None
        self._waited += wait
        self.clock.sleep(wait)

    def _call(
        self,
        verb: str,
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, Any], Any]:
        what = f"{verb} {path}"
        try:
            return self._requester.requestJsonAndCheck(
                verb, path, parameters=dict(parameters or {}), input=body
            )
        except GithubException as error:
            said = str(_object(error.data).get("message", ""))
            headers = {key: str(value) for key, value in (error.headers or {}).items()}
            raise self.refused(what, error.status, headers, said) from None
        except requests.RequestException as error:
            # The library's text may hold addresses and more; its class says what happened.
            raise UnsettledError(f"{what}: no answer ({type(error).__name__})", 0, None) from None
        except ValueError:
            raise UnsettledError(f"{what}: the answer is cut off", 0, None) from None
        except (RuntimeError, AssertionError):
            raise ApiError(
                f"{what}: GitHub answers from elsewhere than GITHUB_API_URL says"
            ) from None

    def refused(
        self, what: str, status: int, headers: Mapping[str, str], said: str = ""
    ) -> ApiError:
        """The error that an answer's status and headers make: UnsettledError where the call may be made again."""
        headers = {key.lower(): value for key, value in headers.items()}
        message = f"{what}: {status} {self._clean(said)}".rstrip()
        if status == 429 or (status == 403 and _is_limit(said, headers)):
            return UnsettledError(message, status, self._limit_wait(headers))
        if status >= 500 or status == 408:
            return UnsettledError(message, status, _seconds(headers.get("retry-after")))
        if status in (404, 410):
            return NotFoundError(message, status)
        if status == 403 and NO_PERMISSION in said:
            message += " (see the job's `permissions`)"
        return ApiError(message, status)

    def _limit_wait(self, headers: Mapping[str, str]) -> float:
        asked = _seconds(headers.get("retry-after"))
        if asked is not None:
            return asked
        reset = _seconds(headers.get("x-ratelimit-reset"))
        if headers.get("x-ratelimit-remaining") == "0" and reset is not None:
            return max(reset - self.clock.now(), 0.0) + 1.0
        return SECONDARY_BACKOFF

    def _clean(self, text: str) -> str:
        shown = visible(text, 300)
        return shown.replace(self._token, "***") if self._token else shown

    def parse(self, model: type[M], answer: Any, path: str) -> M:
        """An answer as a model. Raises ApiError."""
        try:
            return model.model_validate(answer)
        except ValidationError as error:
            raise ApiError(
                f"GitHub's answer to {path} is not understood: {visible(first_problem(error))}"
            ) from None


def connect(
    repository: str,
    token: str,
    api_url: str = DEFAULT_API,
    clock: Clock | None = None,
    timeout: float = TIMEOUT,
    patience: float = PATIENCE,
) -> Client:
    """A client of ``repository`` (owner/name) at ``api_url``; an empty token reads what is public.

    ``timeout``: seconds to connect and between two reads; ``patience``: seconds of all waits together. Raises ApiError.
    """
    owner, slash, name = repository.partition("/")
    allowed = set("-_.")
    if (
        not slash
        or not owner
        or not name
        or not all(c.isascii() and (c.isalnum() or c in allowed) for c in owner + name)
        or {owner, name} & {".", ".."}
    ):
        raise ApiError(
            f"{visible(repository, 100)!r} is no repository: GITHUB_REPOSITORY is owner/name"
        )
    parts = urlsplit(api_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ApiError(f"GITHUB_API_URL {visible(api_url, 200)!r} is no http(s) address")
    requester = Requester(
        auth=Auth.Token(token) if token else None,
        base_url=api_url.rstrip("/"),
        timeout=cast("int", timeout),  # goes to requests, which takes fractions
        user_agent="opdiff",
        per_page=PAGE,
        verify=True,
        retry=0,  # this module decides what is made again
        pool_size=None,
        api_version=API_VERSION,
    )
    return Client(requester, repository, token, clock or Clock(), timeout, patience)


def _object(answer: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}


def _is_limit(said: str, headers: Mapping[str, str]) -> bool:
    return (
        "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or Requester.isRateLimitError(said)
    )


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e12 else None
