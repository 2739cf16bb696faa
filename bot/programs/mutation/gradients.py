"""Output gradients of mutants: where an output may have another shape or dtype, the worker makes them."""

from __future__ import annotations

from bot.programs.draft import Draft


def leave_gradients(draft: Draft) -> None:
    """Leave every output gradient to the worker; the tensors that held them go."""
    for entry in draft.backward:
        if entry.gradient is not None:
            draft.tensors.pop(entry.gradient, None)
    draft.generate_gradients()
