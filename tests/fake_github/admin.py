"""What tests in another process say and ask, at ``/_fake/``: not part of GitHub, not in the log.

GET  /_fake/state                                   the whole state
PUT  /_fake/state                                   another state
GET  /_fake/log                                     all calls
GET  /_fake/violations                              what broke GitHub's description
POST /_fake/faults                                  a fault, as ``Fault`` has it
POST /_fake/artifacts?repository=R&run_id=N&name=A  an artifact: the ZIP's bytes
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from werkzeug.wrappers import Request, Response

from .faults import Fault
from .state import NotHere, State

if TYPE_CHECKING:
    from .server import FakeGitHub

PREFIX = "/_fake/"


def serve(github: FakeGitHub, request: Request) -> Response:
    """The answer to one admin request; 400 says what was wrong with it."""
    try:
        return _json(_answer(github, request))
    except (ValidationError, ValueError, NotHere) as error:
        return _json({"error": f"{type(error).__name__}: {error}"}, 400)


def _json(body: Any, status: int = 200) -> Response:
    text = body if isinstance(body, str) else json.dumps(body)
    return Response(text, status, content_type="application/json")


def _answer(github: FakeGitHub, request: Request) -> Any:
    match request.method, request.path.removeprefix(PREFIX):
        case "GET", "state":
            with github.locked() as state:
                return state.model_dump_json()
        case "PUT", "state":
            github.replace_state(State.model_validate_json(request.get_data()))
        case "GET", "log":
            return [dataclasses.asdict(it) for it in list(github.log)]
        case "GET", "violations":
            return github.violations
        case "POST", "faults":
            fault = Fault.model_validate_json(request.get_data())
            github.fail(**fault.model_dump())
        case "POST", "artifacts":
            given = request.args
            return {
                "id": github.add_artifact(
                    given["repository"], int(given["run_id"]), given["name"], request.get_data()
                )
            }
        case method, path:
            raise ValueError(f"no {method} {PREFIX}{path}")
    return {}
