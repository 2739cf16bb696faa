"""Operators that PyTorch's own list of overridable functions leaves out, yet its test-suite covers.

``torch_names`` generates the allow-list by a rule; these are the exceptions to it, one by one. Each takes and gives
tensors and plain values only; the lists are closed.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

PUBLIC = (
    "resize_as_ segment_reduce zero_ nn.LinearCrossEntropyOptions "
    "masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum masked.log_softmax "
    "masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm masked.normalize masked.prod "
    "masked.softmax masked.softmin masked.std masked.sum masked.var"
).split()
"""Documented functions that no subclass of Tensor can override, and one options object."""

PRIVATE = (
    "_chunk_cat _native_batch_norm_legit _unsafe_masked_index _unsafe_masked_index_put_accumulate "
    "ops.aten._batch_norm_with_update ops.aten._safe_softmax.default ops.aten._softmax_backward_data "
    "ops.aten._upsample_bilinear2d_aa ops.aten.max_pool2d_with_indices_backward.default "
    "ops.aten.native_dropout_backward.default ops.aten.slice.Tensor"
).split()
"""Operators without a public name of their own that have OpInfos."""


def operators() -> Dict[str, Callable[..., Any]]:
    """Canonical name -> callable, for all of these that the installed release has."""
    found: Dict[str, Callable[..., Any]] = {}
    for path in [*PUBLIC, *PRIVATE]:
        value: Any = torch
        for part in path.split("."):
            try:
                value = getattr(value, part, None)
            except (
                RuntimeError
            ):  # how torch.ops says, in releases before 1.11, that it has no such operator
                value = None
        if callable(value):
            found[path] = value
    return found
