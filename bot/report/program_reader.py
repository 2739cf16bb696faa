"""Programs from outside: decoded, validated, bounded, and naming public tensor ops alone.

``decode`` says that a program adds up. What comes from an untrusted run must also be the program that its digest names,
be of a size that can be handled, and call nothing but what workers allow: names that lead elsewhere are refused here,
before anything is written from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import Any, Final, cast

from bot.programs.program import Program, ProgramError, Value, decode, digest, split
from bot.programs.validation import ITEM_BYTES
from bot.report.dialect import dialects
from bot.report.untrusted_json import ResultsError, parse_json_object
from bot.targets.op_mapping import op_names

MAX_JSON_BYTES: Final = 8 << 20
MAX_TENSORS: Final = 2_000
MAX_CALLS: Final = 2_000

_OWN_MODULE: Final = re.compile(r"([a-z]+)\.nn\.[A-Z][A-Za-z0-9]*", re.ASCII)


def read_program(blob: bytes, named: str) -> tuple[Program, memoryview]:
    """The program whose digest is ``named``, and its data. Raises ProgramError with one line."""
    text, _ = split(blob)
    if len(text) > MAX_JSON_BYTES:
        raise ProgramError(
            f"a program's JSON has more than the {MAX_JSON_BYTES} bytes that are read"
        )
    try:
        parse_json_object(text, "a program's JSON")
        program, data = decode(blob)
        if digest(blob) != named:
            raise ProgramError("program.opdiff is not the program that finding.json names")
    except (ResultsError, RecursionError) as error:
        raise ProgramError(str(error)[:300]) from None
    if len(program.tensors) > MAX_TENSORS or len(program.calls) > MAX_CALLS:
        raise ProgramError(f"a program has more than {MAX_TENSORS} tensors or {MAX_CALLS} calls")
    require_public_names(program)
    return program, data


def expanded_bytes(program: Program) -> int:
    """What all tensors take when each is written out: a stride of 0 makes much of little."""
    return sum(math.prod(t.shape) * ITEM_BYTES[t.dtype] for t in program.tensors)


def is_public_op(name: str, modules: Collection[str]) -> bool:
    """Whether a name is on the workers' list of callables, or is ``MODULE.nn.CLASS`` of one of these modules' own."""
    own = _OWN_MODULE.fullmatch(name)
    return name in op_names() or (own is not None and own[1] in modules)


def require_public_names(program: Program) -> None:
    """Raise ProgramError for a call or an argument that names no public tensor op."""
    modules = {dialect.module for dialect in dialects().values()}
    for call in program.calls:
        for name in (call.fn, *_functions([*call.args, *call.kwargs.values()])):
            if not is_public_op(name, modules):
                raise ProgramError(
                    f"a call is refused: {name[:80]!a} is not the name of a public tensor op"
                )


def _functions(values: list[Value]) -> Iterator[str]:
    """Every callable that is an argument. Nesting was bounded by ``decode``."""
    for value in values:
        if isinstance(value, list):
            yield from _functions(cast("list[Value]", value))
        elif isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            if "fn" in entry:
                yield str(entry["fn"])
            yield from _functions(list(entry.values()))
