"""Canonical names of what a tracer meets: ``torch.nn.functional.softplus`` -> ``nn.functional.softplus``.

A name is given only to what the worker's own allow-list holds: a program that no worker runs is none.
"""

from functools import lru_cache
from typing import Any, Callable, Dict, Optional, Tuple

import torch_names
from torch.overrides import resolve_name


@lru_cache(maxsize=None)
def _names() -> Dict[Any, str]:
    return torch_names.canonical_names(torch_names.build_table())


def function_name(function: Callable[..., Any]) -> Optional[str]:
    """The canonical name of a function, a method or a property's getter; None for a lambda or a private one."""
    try:
        return _names().get(function)
    except TypeError:  # it cannot be hashed
        return None


def split_attribute(function: Callable[..., Any]) -> Tuple[str, str]:
    """``("T", "__get__")`` for the getter of ``Tensor.T``; the second is "" for what is no accessor."""
    accessor = getattr(function, "__name__", "")
    if accessor not in ("__get__", "__set__", "__delete__"):
        return accessor, ""
    owner = getattr(function, "__self__", None)
    return getattr(owner, "__name__", ""), accessor


def is_setter(function: Callable[..., Any]) -> bool:
    """Whether a traced callable assigns to an attribute of a tensor."""
    return split_attribute(function)[1] in ("__set__", "__delete__")


def private_name(function: Callable[..., Any]) -> str:
    """What to call a callable that no program may name, in a reason for skipping it."""
    return str(resolve_name(function) or getattr(function, "__name__", function))[:80]
