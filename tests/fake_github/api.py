"""One request from its text to its answer: who asks, may they, is it valid, carry it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.datastructures import Headers

from . import (
    operations_actions,
    operations_checks,
    operations_conversations,
    operations_repositories,
)
from .contract import Contract, Operation
from .exchange import Call, Refusal, Reply
from .faults import primary_limit
from .filled import Filler
from .model import Token
from .permissions import granted, needs
from .render import Renderer
from .state import NotHere, State

ENTERPRISE_PREFIX = "/api/v3"
OPERATIONS = {
    **operations_repositories.OPERATIONS,
    **operations_conversations.OPERATIONS,
    **operations_checks.OPERATIONS,
    **operations_actions.OPERATIONS,
}


@dataclass(frozen=True)
class Request:
    """A request as it came; ``path`` is unquoted and has no Enterprise prefix, ``api`` has."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Headers
    body: bytes
    api: str

    @property
    def token(self) -> str | None:
        """The credential of the ``Authorization`` header."""
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        return value.strip() if scheme.lower() in ("bearer", "token") else None

    @property
    def json(self) -> Any:
        """The body parsed; {} when it is empty or no JSON."""
        try:
            return json.loads(self.body) if self.body else {}
        except ValueError:
            return {}


@dataclass
class Handled:
    """An answer, and what a test wants to know of it."""

    reply: Reply
    operation: str | None = None
    missing_permission: str | None = None
    violation: str | None = None


class Api:
    """GitHub's operations on ``state``, held to ``contract``."""

    def __init__(self, state: State, contract: Contract, blob_url: Callable[[int], str]) -> None:
        self.state = state
        self._contract = contract
        self._filler = Filler(contract)
        self._blob_url = blob_url

    def handle(self, request: Request) -> Handled:
        """Carry out ``request``. Not for two threads at once."""
        found = self._contract.find(request.method, request.path)
        if found is None:
            violation = f"{request.method} {request.path} is not in the vendored description"
            return Handled(Refusal(404, "Not Found").reply, violation=violation)
        operation, values = found
        handled = Handled(Reply(), operation.id)
        try:
            handled.reply = self._carry_out(request, operation, values, handled)
        except Refusal as refusal:
            handled.reply = refusal.reply
        except NotHere:
            handled.reply = Refusal(404, "Not Found").reply
        if handled.violation is None:
            handled.violation = self._response_violation(operation, values, handled.reply)
        return handled

    def _carry_out(
        self, request: Request, operation: Operation, values: dict[str, str], handled: Handled
    ) -> Reply:
        if not request.headers.get("User-Agent"):
            raise Refusal(403, "Request forbidden by administrative rules: no User-Agent header")
        token = self._authenticate(request)
        if "owner" in values:
            self._authorize(operation, values, token, handled)
        if operation.id in ("checks/create", "checks/update"):
            operations_checks.check_limits(request.json)
        violation = self._contract.request_error(
            operation,
            values,
            dict(request.query),
            request.body,
            request.headers.get("Content-Type", ""),
        )
        if violation:
            handled.violation = f"request {request.method} {request.path}: {violation}"
            raise Refusal(422, f"Invalid request by GitHub's OpenAPI description: {violation}", [])
        call = Call(
            state=self.state,
            render=Renderer(self.state, self._filler, request.api),
            token=token,
            values=values,
            query=request.query,
            body=request.json,
            accept=request.headers.get("Accept", ""),
            url=request.api + request.path,
            blob_url=self._blob_url,
        )
        return OPERATIONS[operation.id](call)

    def _authenticate(self, request: Request) -> Token | None:
        if "Authorization" not in request.headers:
            return None
        token = self.state.tokens.get(request.token or "")
        if token is None:
            raise Refusal(401, "Bad credentials")
        token.used += request.path != "/rate_limit"
        if token.used > token.limit:
            limited = primary_limit(int(self.state.now().timestamp()) + 3600)
            raise Refusal(limited.status, limited.body["message"], headers=limited.headers)
        return token

    def _authorize(
        self,
        operation: Operation,
        values: dict[str, str],
        token: Token | None,
        handled: Handled,
    ) -> None:
        repository = self.state.repository(f"{values['owner']}/{values['repo']}")
        name = repository.full_name
        alternatives = needs(self.state, operation.id, name, values)
        writes = any(level == "write" for _, level in alternatives)
        if token is None:
            if repository.private:
                raise Refusal(404, "Not Found")
            if writes or operation.id == "actions/download-artifact":
                raise Refusal(401, "Requires authentication")
            return
        if token.app is None:
            inside = not repository.private or token.login in repository.permissions
        else:
            inside = token.repositories is None or name in token.repositories
        if not inside and (repository.private or writes):
            raise Refusal(404, "Not Found")
        if inside and not granted(token, alternatives):
            handled.missing_permission = " or ".join(f"{it[0]}: {it[1]}" for it in alternatives)
            wanted = "; ".join(f"{it[0].replace('-', '_')}={it[1]}" for it in alternatives)
            kind = "integration" if token.app else "personal access token"
            headers = {"X-Accepted-GitHub-Permissions": wanted}
            raise Refusal(403, f"Resource not accessible by {kind}", headers=headers)

    def _response_violation(
        self, operation: Operation, values: dict[str, str], reply: Reply
    ) -> str | None:
        if "json" not in reply.content_type or "raw" in reply.content_type:
            return None
        error = self._contract.response_error(
            operation, values, reply.status, reply.data(), reply.content_type
        )
        return f"response {reply.status} of {operation.id}: {error}" if error else None
