"""JSON from untrusted runs: bounded before it is parsed, strict, and validated into frozen rows."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn, cast

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import core_schema

MAX_JSON_VALUES: Final = 1_000_000  # a finding has about a hundred
MAX_KEYS: Final = 10_000  # of one object
MAX_DIGITS: Final = 20  # of an integer of 64 bits

# One that never ends reaches to the end: each byte is looked at once, whatever it is.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class ResultsError(ValueError):
    """A results file cannot be read; the message is one line and says what to do."""


def _fail_fast(schema: Any) -> None:
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        if node.get("type") == "tuple":
            node["fail_fast"] = True
        for inner in node.values():
            _fail_fast(inner)
    elif isinstance(schema, list | tuple):
        for inner in cast("list[Any]", schema):
            _fail_fast(inner)


class Row(BaseModel):
    """A frozen row that refuses unknown fields; a list of rows is refused at its first fault."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """The model's schema in which every tuple fails fast: a million faults would be kept, to show one."""
        schema = handler(source)
        _fail_fast(schema)
        return schema


def parse_json_object(raw: bytes, where: str) -> dict[str, Any]:
    """A JSON object, without NaN, infinities, integers over 64 bits, and keys that come twice.

    Bounded by MAX_JSON_VALUES and MAX_KEYS, for a text of empty lists takes many times its size in memory. Raises
    ResultsError.
    """
    # The cheap count takes in what stands in texts, so that only a document over it is counted with care.
    marks = _marks(raw, 0, len(raw))
    if marks > MAX_JSON_VALUES:
        marks -= sum(_marks(raw, *text.span()) for text in _STRING.finditer(raw))
    if marks > MAX_JSON_VALUES:
        raise ResultsError(f"{where} holds more than the {MAX_JSON_VALUES} values that are read")
    try:
        fields = json.loads(
            raw,
            parse_constant=_refuse_constant,
            parse_int=_bounded_int,
            object_pairs_hook=_bounded_object,
        )
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{where} is not JSON: {str(error)[:200]}") from None
    if not isinstance(fields, dict):
        raise ResultsError(f"{where} does not hold a JSON object")
    return fields  # pyright: ignore[reportUnknownVariableType]


def _marks(raw: bytes, start: int, end: int) -> int:
    """At least the number of the values that take memory, between two places of a document."""
    return sum(raw.count(mark, start, end) for mark in (b",", b"[", b"{"))


def first_problem(error: ValidationError) -> str:
    """The first of a validation's complaints, as ``where: what``."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in problem["loc"])[:200]
    return f"{where}: {problem['msg']}"[:400].replace("\n", " ")


def _bounded_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs) or len(pairs) > MAX_KEYS:
        raise ValueError(f"an object has a key twice, or more than {MAX_KEYS} keys")
    return fields


def _bounded_int(digits: str) -> int:
    if len(digits) <= MAX_DIGITS:
        number = int(digits)
        if -(1 << 63) <= number < 1 << 64:
            return number
    raise ValueError("an integer has more than 64 bits")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON does not have the number {name}")
