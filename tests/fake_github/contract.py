"""GitHub's own OpenAPI description as a judge of requests and responses."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from openapi_schema_validator import OAS30Validator
from werkzeug.datastructures import Headers, ImmutableMultiDict

DESCRIPTION = Path(__file__).parent / "vendored" / "openapi.json"
JSON = "application/json"
_ANY_HOST = "http://fake.invalid"
_PORT = re.compile(rb"(?<=http://127\.0\.0\.1):\d+")


@dataclass(frozen=True)
class Operation:
    """One operation of the description: ``method`` in lower case and the path's template."""

    method: str
    template: str
    id: str
    query: frozenset[str]
    body: frozenset[str]


@dataclass(frozen=True)
class _Request:
    """A request as openapi-core wants it; the path's values are quoted whole, slashes too."""

    method: str
    path: str
    parameters: RequestParameters
    body: bytes | None
    content_type: str
    host_url: str = _ANY_HOST


@dataclass(frozen=True)
class _Response:
    data: bytes
    status_code: int
    headers: Headers
    content_type: str


class Contract:
    """The vendored description, loaded. Its verdict is a text that says what is wrong, or None."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = _with_deleted_forks(_as_meant(description))
        self._openapi = OpenAPI.from_dict(self.description)
        self._verdicts: dict[bytes, str | None] = {}
        self._routes = list(self._compile())

    def _compile(self) -> Iterator[tuple[re.Pattern[str], Operation]]:
        # More literal segments win: `/commits/{ref}/check-runs` over `/commits/{ref}`.
        for template in sorted(self.description["paths"], key=_parameters_last):
            methods = self.description["paths"][template]
            pattern = re.escape(template).replace(r"\{", "{").replace(r"\}", "}")
            pattern = pattern.replace("{path}", "(?P<path>.*)").replace("{ref}", "(?P<ref>.+)")
            pattern = pattern.replace("{basehead}", "(?P<basehead>.+)")
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)
            for method, operation in methods.items():
                parameters = [self.resolve(it) for it in operation.get("parameters", [])]
                body = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
                yield (
                    re.compile(pattern),
                    Operation(
                        method,
                        template,
                        operation["operationId"],
                        frozenset(it["name"] for it in parameters if it["in"] == "query"),
                        frozenset(_names(body.get("schema", {}))),
                    ),
                )

    def resolve(self, node: dict[str, Any]) -> dict[str, Any]:
        """``node``, or the component that it refers to."""
        while "$ref" in node:
            _, section, name = node["$ref"].removeprefix("#/").split("/")
            node = self.description["components"][section][name]
        return node

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation that serves ``path`` (unquoted, without the Enterprise prefix)."""
        for pattern, operation in self._routes:
            if operation.method == method.lower() and (match := pattern.fullmatch(path)):
                return operation, match.groupdict()
        return None

    def request_error(
        self,
        operation: Operation,
        values: dict[str, str],
        query: dict[str, str],
        body: bytes,
        content_type: str,
    ) -> str | None:
        """What is wrong with a request. Names that GitHub doesn't know are wrong too: GitHub
        ignores them in silence, and the caller believes that they did something."""
        unknown = sorted(query.keys() - operation.query)
        if unknown:
            return f"query parameters {unknown} are not in {operation.id}"
        if body and operation.method == "get":
            return f"{operation.id} is a GET and takes no body"
        try:
            given = json.loads(body) if body else None
        except ValueError as error:
            return f"the body is not JSON: {error}"
        if isinstance(given, dict) and (unknown := sorted(given.keys() - operation.body)):
            return f"body fields {unknown} are not in {operation.id}"
        request = self._request(operation, values, query, body, content_type)
        return self._once(
            (operation.id, request.path, sorted(query.items()), content_type),
            body,
            lambda: _error_of(self._openapi.validate_request, request),
        )

    def response_error(
        self,
        operation: Operation,
        values: dict[str, str],
        status: int,
        body: bytes,
        content_type: str,
    ) -> str | None:
        """What is wrong with a response. A status that the description doesn't list for an
        operation is held to GitHub's general form of an error."""
        listed = self.description["paths"][operation.template][operation.method]["responses"]
        if str(status) not in listed:
            schema = {"$ref": "#/components/schemas/basic-error"}
            return (
                self.schema_error(schema, json.loads(body)) if status >= 400 else "unknown status"
            )
        if not self.resolve(listed[str(status)]).get("content"):
            return f"{operation.id} answers {status} with no body" if body else None
        request = self._request(operation, values, {}, b"", "")
        response = _Response(body, status, Headers(), content_type.split(";")[0])
        return self._once(
            (operation.id, status, content_type),
            body,
            lambda: _error_of(self._openapi.validate_response, request, response),
        )

    def _once(self, kind: object, body: bytes, judge: Callable[[], str | None]) -> str | None:
        """A verdict is made once for the same text, whatever the server's port is."""
        text = repr(kind).encode() + _PORT.sub(b"", body)
        key = hashlib.sha256(text).digest()
        if key not in self._verdicts:
            self._verdicts[key] = judge()
        return self._verdicts[key]

    def schema_error(self, schema: dict[str, Any], instance: Any) -> str | None:
        """What is wrong with ``instance`` by a schema of the description."""
        whole = {**schema, "components": self.description["components"]}
        errors = OAS30Validator(whole).iter_errors(instance)
        return "; ".join(f"{error.json_path}: {error.message}" for error in errors) or None

    def webhook_error(self, name: str, payload: Any) -> str | None:
        """What is wrong with a webhook's payload; ``name`` as in ``pull-request-opened``."""
        return self.schema_error(self.description["x-webhooks"][name], payload)

    def _request(
        self,
        operation: Operation,
        values: dict[str, str],
        query: dict[str, str],
        body: bytes,
        content_type: str,
    ) -> _Request:
        # openapi-core's path templates stop at slashes, which GitHub's {path} and {ref} may hold.
        quoted = {name: quote(value, safe="") or "%20" for name, value in values.items()}
        return _Request(
            operation.method,
            operation.template.format(**quoted),
            RequestParameters(query=ImmutableMultiDict(query), header=Headers()),
            body or None,
            content_type.split(";")[0],
        )


def _as_meant(node: Any) -> Any:
    """The description as GitHub means it: null is a value of a nullable enum, though its list lacks
    it, and a discriminator is only a hint (openapi-core takes an array for an object by it)."""
    if isinstance(node, list):
        return [_as_meant(item) for item in node]
    if not isinstance(node, dict):
        return node
    meant = {k: _as_meant(v) for k, v in node.items() if k != "discriminator" or "type" in v}
    values = node.get("enum")
    if node.get("nullable") is True and isinstance(values, list) and None not in values:
        meant["enum"] = [*values, None]
    return meant


def _with_deleted_forks(description: dict[str, Any]) -> dict[str, Any]:
    """The description with null where GitHub answers null for a fork that was deleted.

    It lacks it: issues 1586 (a run's ``head_repository``) and 1811 (a pull request's ``head.repo``)
    of github/rest-api-description; GitHub's webhooks are described with it.
    """
    schemas = description["components"]["schemas"]
    heads = [schemas[it]["properties"]["head"] for it in ("pull-request", "pull-request-simple")]
    for place, name, whole in (
        *((head["properties"], "repo", "repository") for head in heads),
        (schemas["workflow-run"]["properties"], "head_repository", "minimal-repository"),
    ):
        place[name] = schemas[whole] | {"nullable": True}
    return description


def _parameters_last(template: str) -> tuple[int, str]:
    return -len([it for it in template.split("/") if not it.startswith("{")]), template


def _names(schema: dict[str, Any]) -> Iterator[str]:
    yield from schema.get("properties", {})
    for word in ("oneOf", "anyOf", "allOf"):
        for part in schema.get(word, []):
            yield from _names(part)


def _error_of(validate: Any, *arguments: Any) -> str | None:
    try:
        validate(*arguments)
    except OpenAPIError as error:
        causes = getattr(error.__cause__, "schema_errors", None) or [error.__cause__ or error]
        return "; ".join(_words(cause) for cause in causes)
    return None


def _words(cause: Any) -> str:
    where = getattr(cause, "json_path", "")
    deeper = "".join(f" ({_words(it)})" for it in list(getattr(cause, "context", None) or [])[:5])
    return f"{where} {getattr(cause, 'message', cause)}"[:2000].strip() + deeper


@functools.cache
def github_contract() -> Contract:
    """GitHub's description as vendored beside this file."""
    return Contract(json.loads(DESCRIPTION.read_text("utf-8")))
