"""Fetch the check stage's artifact: the right one of its run, bounded while it streams, without the token.

GitHub answers a download with a redirect to a storage host. The token is for the API alone, so it stays behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import urljoin, urlsplit

import requests
from pydantic import AwareDatetime, Field

from bot.errors import OpDiffError
from bot.github.client import ApiError, ApiModel, Client, NotFoundError, UnsettledError
from bot.github.event import Id, Sha
from bot.github.workflow_run import RunRow
from bot.report.escape import visible

Text = Annotated[str, Field(max_length=1_000)]

CHUNK: Final = 1 << 16
MAX_REDIRECTS: Final = 3
MAX_SECONDS: Final = 300.0
"""One download, whole."""


class DownloadError(OpDiffError):
    """The run left no artifact that can be used; the message is one line for the comment."""


class NoArtifactError(DownloadError):
    """The run has no artifact of that name at all."""


class _ArtifactRun(ApiModel):
    id: Id
    head_sha: Sha


class ArtifactRow(ApiModel):
    """An artifact of a run."""

    id: Id
    name: Text
    size_in_bytes: Annotated[int, Field(ge=0)]
    expired: bool
    created_at: AwareDatetime | None = None
    digest: Text | None = None
    """``sha256:...`` of the zip file, where the server says it."""
    workflow_run: _ArtifactRun | None = None


def download_artifact(client: Client, run: RunRow, name: str, limit: int) -> bytes:
    """The zip file that this attempt of the run uploaded under ``name``, at most ``limit`` bytes.

    Raises DownloadError where there is none to use, ApiError where GitHub cannot be asked.
    """
    rows = list(
        client.pages(
            ArtifactRow,
            client.path("actions", "runs", run.id, "artifacts"),
            {"name": name},
            key="artifacts",
        )
    )
    artifact = _choose(rows, run, name)
    if artifact.size_in_bytes > limit:
        raise DownloadError(
            f"the artifact has {artifact.size_in_bytes} bytes, more than the {limit} that are read"
        )
    try:
        return client.patiently(lambda: _download(client, artifact, limit))
    except NotFoundError:
        raise DownloadError("the artifact has been deleted") from None


def _choose(rows: Sequence[ArtifactRow], run: RunRow, name: str) -> ArtifactRow:
    """The newest of the run under that name; an artifact of an earlier attempt does not speak for this one."""
    ours = [
        row
        for row in rows
        if row.name == name
        and row.workflow_run is not None
        and (row.workflow_run.id, row.workflow_run.head_sha) == (run.id, run.head_sha)
    ]
    if not ours:
        raise NoArtifactError(f"the check run left no artifact {visible(name, 100)!r}")
    newest = max(ours, key=lambda row: row.id)
    if newest.expired:
        raise DownloadError("the check run's artifact has expired")
    if _is_before(newest.created_at, run.run_started_at):
        raise DownloadError(
            f"attempt {run.run_attempt} of the check run left no report: the artifact is an earlier attempt's"
        )
    return newest


def _is_before(created: datetime | None, started: datetime | None) -> bool:
    return created is not None and started is not None and created < started


def _download(client: Client, artifact: ArtifactRow, limit: int) -> bytes:
    path = client.path("actions", "artifacts", artifact.id, "zip")
    what = f"GET {path}"
    deadline = client.clock.now() + MAX_SECONDS
    try:
        with requests.Session() as session:
            session.auth = _no_netrc
            with _response(session, client, client.api_url + path) as response:
                content = _bounded(response, client, limit, deadline, what)
    except requests.RequestException as error:
        raise UnsettledError(f"{what}: cut off ({type(error).__name__})", 0, None) from None
    if artifact.digest and artifact.digest.startswith("sha256:"):
        digest = hashlib.sha256(content).hexdigest()
        if digest != artifact.digest.removeprefix("sha256:"):
            raise UnsettledError(f"{what}: not the bytes that were uploaded", 0, None)
    return content


@contextmanager
def _response(session: requests.Session, client: Client, url: str) -> Generator[requests.Response]:
    """The answer that holds the bytes, after redirects; only the first address is given the token."""
    headers = {**client.authorization(), "User-Agent": "opdiff", "Accept-Encoding": "identity"}
    for _ in range(MAX_REDIRECTS + 1):
        with session.get(
            url, headers=headers, allow_redirects=False, stream=True, timeout=client.timeout
        ) as response:
            if not response.is_redirect:
                yield response
                return
            target = urljoin(url, response.headers["location"])
        if urlsplit(target).scheme not in ("https", urlsplit(client.api_url).scheme):
            raise ApiError("the artifact's storage is not reached by https")
        headers.pop("Authorization", None)
        url = target
    raise ApiError("the artifact's address leads on and on")


def _bounded(
    response: requests.Response, client: Client, limit: int, deadline: float, what: str
) -> bytes:
    if response.status_code != 200:
        raise client.refused(what, response.status_code, dict(response.headers), response.reason)
    content = bytearray()
    for chunk in response.iter_content(CHUNK):
        content += chunk
        if len(content) > limit:
            raise DownloadError(f"the artifact has more than the {limit} bytes that are read")
        if client.clock.now() > deadline:
            raise UnsettledError(f"{what}: too slow", 0, None)
    return bytes(content)


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps the library from adding what a .netrc file knows of a host."""
    return request
