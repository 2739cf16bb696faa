"""The fake GitHub on two sockets: the API, and the host that artifacts are downloaded from."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import socket
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request as HttpRequest

from . import admin
from .api import ENTERPRISE_PREFIX, Api, Handled, Request
from .contract import Contract, github_contract
from .exchange import Refusal, Reply
from .faults import Fault, Way, refusal
from .state import State

StartResponse = Callable[..., Any]
POLL = 0.01  # seconds until a server notices that it shall stop
CARRIED_OUT = (Way.CUT_AFTER, Way.SLOW, Way.TRUNCATED, Way.MALFORMED)


@dataclass
class Logged:
    """One call. ``status`` None: no answer was sent. ``at``: seconds of the monotonic clock when it
    came. ``carried_out``: whether GitHub did it (a refused call was carried out as a refusal)."""

    method: str
    path: str
    query: dict[str, str]
    token: str | None
    body: Any
    at: float
    status: int | None = None
    operation: str | None = None
    fault: Way | None = None
    carried_out: bool = False
    missing_permission: str | None = None
    violation: str | None = None

    @property
    def writes(self) -> bool:
        """Whether it changes something when carried out."""
        return self.method != "GET"


@dataclass
class Interposed:
    """``action`` is done once, right before the next call that matches is carried out."""

    method: str
    path: str
    action: Callable[[], None]


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """No access log: ``FakeGitHub.log`` has it."""


class FakeGitHub:
    """GitHub with ``state``, ``faults`` and a ``log``; a context manager that serves meanwhile."""

    def __init__(
        self,
        state: State | None = None,
        *,
        contract: Contract | None = None,
        port: int = 0,
        blob_port: int = 0,
        changed: Callable[[State], None] | None = None,
    ) -> None:
        """``changed`` is called after every call that may have changed the state."""
        self.state = state or State()
        self.faults: list[Fault] = []
        self.log: list[Logged] = []
        self.contract = contract or github_contract()
        self._api = Api(self.state, self.contract, self._blob_url)
        self._interposed: list[Interposed] = []
        self._signatures: dict[str, int] = {}
        self._changed = changed
        self._lock = threading.RLock()
        self._server = _serve(self._serve_api, "127.0.0.1", port)
        # Another host and another port than the API's, as with GitHub: a client must not take the
        # token along.
        self._blobs = _serve(self._serve_blob, "127.0.0.1", blob_port)
        self._threads: list[threading.Thread] = []

    # Addresses

    @property
    def url(self) -> str:
        """The API's address as on github.com."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def enterprise_url(self) -> str:
        """The API's address as on GitHub Enterprise."""
        return self.url + ENTERPRISE_PREFIX

    @property
    def blob_host(self) -> str:
        """The address of the host that has the artifacts."""
        return f"http://localhost:{self._blobs.server_port}"

    def _blob_url(self, artifact_id: int) -> str:
        signature = secrets.token_hex(8)
        self._signatures[signature] = artifact_id
        return f"{self.blob_host}/blob/{artifact_id}?sig={signature}"

    # Running

    def __enter__(self) -> FakeGitHub:
        for server in (self._server, self._blobs):
            thread = threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self._server, self._blobs):
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()

    # What a test says and asks

    @contextlib.contextmanager
    def locked(self) -> Generator[State]:
        """The state while no call is carried out."""
        with self._lock:
            yield self.state

    def fail(self, way: Way | str, **fields: Any) -> Fault:
        """Add a fault; ``fields`` are those of ``Fault``."""
        fault = Fault(way=Way(way), **fields)
        with self._lock:
            self.faults.append(fault)
        return fault

    def before(self, method: str, path: str, action: Callable[[], None]) -> None:
        """Do ``action`` once, right before the next call of ``method`` whose path matches the
        regular expression ``path``: what happens between two calls of the program under test."""
        self._interposed.append(Interposed(method, path, action))

    @property
    def violations(self) -> list[str]:
        """All that was not as GitHub's description says, in order."""
        return [it.violation for it in self.log if it.violation]

    @property
    def missing_permissions(self) -> list[str]:
        """The permissions that calls were refused for, in order."""
        return [it.missing_permission for it in self.log if it.missing_permission]

    def writes(self) -> list[Logged]:
        """The calls that changed something."""
        return [it for it in self.log if it.writes and it.carried_out and (it.status or 200) < 400]

    def replace_state(self, state: State) -> None:
        """Another scene; the log stays."""
        with self._lock:
            self.state = self._api.state = state
            if self._changed:
                self._changed(state)

    def add_artifact(self, repository: str, run_id: int, name: str, archive: bytes) -> int:
        """An artifact of a run that a test in another process hands in; its id."""
        with self._lock:
            run = self.state.run(repository, run_id)
            artifact = self.state.add_artifact(run, name, archive)
            if self._changed:
                self._changed(self.state)
        return artifact.id

    # Serving

    def _serve_api(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        http = HttpRequest(environ)
        if http.path.startswith(admin.PREFIX):
            return admin.serve(self, http)(environ, start)
        enterprise = http.path.startswith(f"{ENTERPRISE_PREFIX}/")
        request = Request(
            method=http.method,
            path=http.path.removeprefix(ENTERPRISE_PREFIX) if enterprise else http.path,
            query=dict(http.args.items()),
            headers=http.headers,
            body=http.get_data(),
            api=http.host_url.rstrip("/") + (ENTERPRISE_PREFIX if enterprise else ""),
        )
        return self._answer(request, self._handle_api, environ, start)

    def _handle_api(self, request: Request) -> Handled:
        try:
            handled = self._api.handle(request)
        except Exception:
            broken = f"the fake broke on {request.method} {request.path}: {traceback.format_exc()}"
            return Handled(Refusal(500, "Server Error").reply, violation=broken)
        if self._changed and request.method != "GET":
            self._changed(self.state)
        return handled

    def _serve_blob(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        http = HttpRequest(environ)
        args = dict(http.args.items())
        request = Request(http.method, http.path, args, http.headers, http.get_data(), "")
        return self._answer(request, self._handle_blob, environ, start)

    def _handle_blob(self, request: Request) -> Handled:
        """An artifact's bytes; a request that brings a credential along is refused."""
        if "Authorization" in request.headers:
            violation = f"GET {request.path}: the Authorization header went to the blob host"
            return Handled(Refusal(400, "InvalidAuthenticationInfo").reply, violation=violation)
        match = re.fullmatch(r"/blob/(\d+)", request.path)
        wanted = self._signatures.get(request.query.get("sig", ""))
        if not match or request.method != "GET" or wanted != int(match[1]):
            return Handled(Refusal(403, "AuthenticationFailed").reply)
        artifact = next(it for it in self.state.artifacts if it.id == wanted)
        return Handled(Reply(200, artifact.data, content_type="application/zip"), "blob")

    def _answer(
        self,
        request: Request,
        handle: Callable[[Request], Handled],
        environ: dict[str, Any],
        start: StartResponse,
    ) -> Iterable[bytes]:
        logged = Logged(
            request.method,
            request.path,
            dict(request.query),
            request.token,
            _readable(request.body),
            time.monotonic(),
        )
        with self._lock:
            self.log.append(logged)
            fault = self._fault_for(request)
            logged.fault = fault.way if fault else None
            reply = refusal(fault, self.state.now().timestamp()) if fault else None
            if reply is None and (fault is None or fault.way in CARRIED_OUT):
                self._interpose(request)
                handled = handle(request)
                reply = handled.reply
                logged.operation, logged.violation = handled.operation, handled.violation
                logged.missing_permission = handled.missing_permission
                logged.carried_out = True
            limits = self._limit_headers(request)
            if reply is not None and logged.fault is not Way.CUT_AFTER:
                logged.status = reply.status
        if reply is None or logged.fault is Way.CUT_AFTER:
            _cut(environ)
            raise ConnectionAbortedError("cut on purpose")
        if fault and fault.way is Way.SLOW:
            time.sleep(fault.seconds)
        return _send(reply, limits, logged.fault, environ, start)

    def _fault_for(self, request: Request) -> Fault | None:
        """The first fault that strikes; all others count the call too."""
        striking = [it for it in self.faults if it.strikes(request.method, request.path)]
        self.faults = [it for it in self.faults if not it.spent]
        return striking[0] if striking else None

    def _interpose(self, request: Request) -> None:
        for interposed in list(self._interposed):
            if interposed.method == request.method and re.search(interposed.path, request.path):
                self._interposed.remove(interposed)
                interposed.action()

    def _limit_headers(self, request: Request) -> dict[str, str]:
        token = self.state.tokens.get(request.token or "")
        limit, used = (token.limit, token.used) if token else (60, 0)
        return {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(limit - used, 0)),
            "X-RateLimit-Used": str(used),
            "X-RateLimit-Reset": str(int(self.state.now().timestamp()) + 3600),
            "X-RateLimit-Resource": "core",
        }


def _serve(app: Callable[..., Iterable[bytes]], host: str, port: int) -> BaseWSGIServer:
    return make_server(host, port, app, threaded=True, request_handler=_Quiet)


def _readable(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


def _cut(environ: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def _send(
    reply: Reply,
    limits: dict[str, str],
    fault: Way | None,
    environ: dict[str, Any],
    start: StartResponse,
) -> Iterable[bytes]:
    data = reply.data()
    if fault is Way.MALFORMED:
        data = b'{"message": "unfinis' + data[: len(data) // 2]
    headers = {**limits, **reply.headers, "Content-Length": str(len(data))}
    if data:
        headers["Content-Type"] = reply.content_type
    if reply.status == HTTPStatus.NO_CONTENT:
        del headers["Content-Length"]
    start(f"{reply.status} {HTTPStatus(reply.status).phrase}", list(headers.items()))
    if fault is Way.TRUNCATED:
        return _truncated(data, environ)
    return [data]


def _truncated(data: bytes, environ: dict[str, Any]) -> Iterator[bytes]:
    """Half of the bytes that the headers promise, then a cut."""
    yield data[: len(data) // 2]
    _cut(environ)
    raise ConnectionAbortedError("cut on purpose")
