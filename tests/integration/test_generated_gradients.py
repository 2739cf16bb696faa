"""Programs that leave their output gradients to the worker: in every framework that has gradients, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_call import start

from bot.programs.builder import ProgramBuilder
from bot.programs.draft import Draft
from bot.targets.environment_store import EnvironmentStore

FRAMEWORKS: dict[str, dict[str, str]] = {
    "torch==2.13.0": {},
    "torch==2.13.0 compiled": {"compile": "aot_eager"},
    "oneflow==0.9.0": {},
    "paddlepaddle==3.3.1": {},
    "mindspore==2.10.0": {},
    "megengine==1.13.0": {},
    "jax==0.10.2": {},
    "jax==0.10.2 compiled": {"compile": ""},
}


def _square(x: np.ndarray[Any, Any]) -> bytes:
    builder = ProgramBuilder("mul")
    tensor = builder.tensor("x", x, requires_grad=True)
    product = builder.call("mul", tensor, tensor)
    builder.output(product)
    builder.backward(product, np.ones_like(x))
    draft = Draft(builder.blob())
    draft.generate_gradients()
    return draft.blob()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_gradient_of_a_square(name: str, environment_store: EnvironmentStore) -> None:
    """d(x*x) = 2x times 1, -0.5, 2, 0.25, -1.5, 0.75, -2, and 1 again."""
    environment = environment_store.prepare(name.split()[0])
    with start(environment, options=FRAMEWORKS[name], compile_seconds=120) as worker:
        (outcome,) = worker.run(_square(np.array([1, 2, 3, 4, 5, 6, 7, 8], np.float32)))
    assert outcome.by_key["gradient", "x", ()].array.tolist() == [2, -2, 12, 2, -15, 9, -28, 16]
