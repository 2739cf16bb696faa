"""Runs call forms against a stand-in framework, in a process whose path begins with the worker's folder.

stdin: a list of ``[forms, args, kwargs]``; stdout: a list of what came of each. ``{"kind": "float"}`` is a tensor.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

sys.path.insert(0, sys.argv[1])
from call_forms import FormCall, InPlaceCall, bound_forms
from framework import UnsupportedError


class Tensor:
    def __init__(self, kind: str) -> None:
        self.kind = kind


class Root:
    strptime = staticmethod(time.strptime)  # a C function that imports

    @staticmethod
    def lacks(value: Any) -> Any:
        raise UnsupportedError(f"no kernel of {shown(value)}")

    @staticmethod
    def call(*args: Any, **kwargs: Any) -> Any:
        return [list(map(shown, args)), {key: shown(value) for key, value in kwargs.items()}]


def shown(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.kind
    return list(map(shown, value)) if isinstance(value, (list, tuple)) else value


def kind(value: Any) -> str:
    return value.kind if isinstance(value, Tensor) else ""


def made(value: Any) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return Tensor(value["kind"])
    return [made(item) for item in value] if isinstance(value, list) else value


def outcome(forms: list[str], args: list[Any], kwargs: dict[str, Any]) -> Any:
    found, absent = bound_forms(forms, {"root": Root}, kind, lambda value: value == "float32")
    if not found:
        return {"absent": absent and absent.reason}
    call = FormCall("op", found, lambda function, values: function(*values), lambda value: value)
    try:
        return call(*made(args), **{key: made(value) for key, value in kwargs.items()})
    except UnsupportedError as error:
        return {"unsupported": str(error)}


def in_place() -> Any:
    """What an in-place call hands on, and what it gives back."""
    assigned: list[Any] = []

    def assign(target: Any, result: Any) -> Any:
        assigned.append([target.kind, result])
        return target

    found, _ = bound_forms(
        ["(input, other) -> root.call(input, other)"], {"root": Root}, kind, bool
    )
    call = FormCall("op", found, lambda function, values: function(*values), lambda value: value)
    target = Tensor("int")
    made = InPlaceCall(call, assign, lambda target: target)
    return [made(target, 2) is target, assigned]


json.dump([[outcome(*case) for case in json.load(sys.stdin)], in_place()], sys.stdout)
