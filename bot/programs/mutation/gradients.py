"""Output gradients of mutants: where an output may have another shape or dtype, the worker makes them."""

from __future__ import annotations

from typing import Any, Final, cast

from bot.programs.draft import Draft

PIECES: Final = ("split", "chunk", "unbind")
"""Parts of the names of ops that give as many tensors as the input's size says."""


def leave_gradients(draft: Draft) -> None:
    """Leave every output gradient to the worker; the tensors that held them go.

    Of an op that gives pieces, only the first is sure to be there.
    """
    for entry in draft.backward:
        if entry.gradient is not None:
            draft.tensors.pop(entry.gradient, None)
    pieces = {call.result for call in draft.calls if any(word in call.fn for word in PIECES)}
    draft.backward = [entry for entry in draft.backward if _stays(entry.output, pieces)]
    draft.generate_gradients()


def _stays(output: Any, pieces: set[str]) -> bool:
    place = cast("dict[str, Any]", output)
    return place.get("ref") not in pieces or place.get("path", [0]) == [0]
