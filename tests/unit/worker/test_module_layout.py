"""Modules under PyTorch's names and in its layout; the rows that say where a framework keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bot.targets.op_mapping import OpMapping
from bot.worker.module_layout import MadeModule, ModuleCall, Place, StateView


def mapping(state: object, call: object = "(a) -> own.Linear(a)") -> OpMapping:
    row: dict[str, object] = {"source": "a test", "state": state}
    if call is not None:
        row["call"] = call
    return OpMapping.model_validate({"framework": "own", "ops": {"nn.Linear": row}})


def sent(state: object) -> Any:
    return mapping(state).message()["ops"]["nn.Linear"]["state"]


def test_a_row_names_a_place_shortly_or_in_full() -> None:
    state = {
        "running_mean": "_mean",
        "weight": {"name": "weight", "transpose": True},
        "num_batches_tracked": None,
    }
    assert sent(state) == {
        "running_mean": {"name": "_mean"},
        "weight": {"name": "weight", "transpose": True},
        "num_batches_tracked": None,
    }


def test_a_module_class_whose_state_is_the_same_says_so_with_an_empty_state() -> None:
    assert sent({}) == {}


@pytest.mark.parametrize("state", [{"weight": {"transpose": True}}, {"weight": {"nme": "w"}}, [1]])
def test_a_place_that_says_nothing_usable_is_refused(state: object) -> None:
    with pytest.raises(ValidationError):
        mapping(state)


def test_state_without_a_form_is_refused() -> None:
    with pytest.raises(ValidationError, match="state is of module classes"):
        mapping({}, call=None)


def test_a_view_swaps_the_last_two_axes_and_then_takes_the_shape() -> None:
    array = np.arange(6).reshape(2, 3)
    assert StateView(None, True, None).seen(array).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert StateView(None, False, (3, 2)).seen(array).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert StateView(None, True, (6,)).seen(array).tolist() == [0, 3, 1, 4, 2, 5]


def test_names_and_layout_of_a_made_module() -> None:
    made = MadeModule(
        object(),
        {
            "weight": Place("w", transpose=True),
            "bias": Place("b", reshape=True),
            "running_mean": Place("_mean"),
            "num_batches_tracked": None,
        },
    )
    assert made.lacks("num_batches_tracked")
    assert not made.lacks("weight")
    assert made.place("other") == Place("other")
    made.loaded("weight", (3, 2))
    made.loaded("bias", (3,))
    own = [
        ("parameter", "w", "W"), ("parameter", "b", "B"), ("buffer", "_mean", "M"), ("buffer", "other", "O"),
    ]  # fmt: skip
    assert made.views(own) == [
        ("parameter", "weight", StateView("W", True, None)),
        ("parameter", "bias", StateView("B", False, (3,))),
        ("buffer", "running_mean", "M"),
        ("buffer", "other", "O"),
    ]


def test_what_a_class_makes_is_remembered_with_its_places() -> None:
    remembered: list[MadeModule] = []

    def linear(size: int, bias: bool = True) -> tuple[str, int, bool]:
        return "module", size, bias

    call = ModuleCall(
        linear,
        {"weight": {"name": "w", "transpose": True}, "count": None},
        remembered.append,
    )
    assert call(3, bias=False) == ("module", 3, False)
    (made,) = remembered
    assert made.module == ("module", 3, False)
    assert made.place("weight") == Place("w", transpose=True)
    assert made.lacks("count")
