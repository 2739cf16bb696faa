"""OpInfos of PyTorch's own test-suite, as entries and as cases."""

import itertools
import unittest
from functools import lru_cache
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
import trace_names
from trace_values import dtype_name

# Test classes that compare eager CPU numerics. The others speak of compilers, tracing, other devices...
NUMERIC_TESTS = frozenset(
    "TestCommon TestBwdGradients TestFwdGradients TestGradients TestUnaryUfuncs TestBinaryUfuncs "
    "TestReductions TestShapeFuncs TestLinalg TestSpectralOps TestMasked TestModule TestOpInfo".split()
)

Decorated = Any
"""An OpInfo or a ModuleInfo: both carry decorators, skips and a gradient tolerance for nondeterminism."""


@lru_cache(maxsize=None)
def op_infos() -> Dict[Tuple[str, str], Any]:
    """``(name, variant) -> OpInfo`` of the installed release, without ops that exist only on GPUs."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        (op.name, op.variant_test_name): op for op in op_db if not op.name.startswith("jiterator")
    }


OTHER_DEVICES = ("_mps", "_cuda", "_xpu", "_meta")
"""Ends of the names of tests that never run on a CPU."""


def _applies(decoration: Any, dtype: Optional[torch.dtype]) -> bool:
    active = decoration.active_if
    return (
        (active if isinstance(active, bool) else False)
        and decoration.device_type in (None, "cpu")
        and (decoration.dtypes is None or dtype in decoration.dtypes)
        and decoration.cls_name in NUMERIC_TESTS | {None}
        and not (decoration.test_name or "").endswith(OTHER_DEVICES)
    )


def tolerance(info: Decorated, dtype: torch.dtype) -> Optional[Dict[str, float]]:
    """The widest tolerance override that PyTorch's own numeric CPU tests use for the dtype, or None."""
    atol = rtol = -1.0
    for entry in info.decorators:
        decorators = getattr(entry, "decorators", [entry])
        if hasattr(entry, "cls_name") and not _applies(entry, dtype):
            continue
        for decorator in decorators:
            override = getattr(decorator, "d", {})
            found = override.get(dtype) if isinstance(override, dict) else None
            if found is None:
                continue
            pair = (
                (found.atol, found.rtol)
                if hasattr(found, "atol")
                else (found, _default_rtol(dtype))
            )
            atol, rtol = max(atol, float(pair[0])), max(rtol, float(pair[1]))
    return None if atol < 0 else {"atol": atol, "rtol": rtol}


def _default_rtol(dtype: torch.dtype) -> float:
    from torch.testing._comparison import default_tolerances

    return float(default_tolerances(dtype)[0])


def known(info: Decorated, dtype: torch.dtype) -> Optional[str]:
    """The skips and expected failures of PyTorch's own numeric CPU tests that apply, as one text, or None."""
    found: List[str] = []
    for entry in info.decorators:
        if not hasattr(entry, "cls_name") or not _applies(entry, dtype):
            continue
        for decorator in entry.decorators:
            verb = _skip_or_failure(decorator)
            if verb:
                found.append("%s.%s %s" % (entry.cls_name or "*", entry.test_name or "*", verb))
    return "; ".join(sorted(set(found)))[:500] or None


def _skip_or_failure(decorator: Any) -> Optional[str]:
    if decorator is unittest.expectedFailure:
        return "expected failure"
    name = getattr(decorator, "__qualname__", "")
    return "skipped" if name.startswith("skip.") else None


def canonical_names(op: Any) -> List[str]:
    """Every public name that leads to the op: function, method, in-place method, and those of its aliases."""
    names: List[Optional[str]] = []
    for form in (op, *op.aliases):
        names.append(trace_names.function_name(form.op))
        for method in (form.method_variant, form.inplace_variant):
            names.append(trace_names.function_name(method) if callable(method) else None)
    return list(dict.fromkeys(name for name in names if name))


def dtypes_on_cpu(op: Any) -> List[str]:
    """Canonical names of the dtypes that the op supports on a CPU."""
    return sorted(dtype_name(dtype) for dtype in op.supported_dtypes("cpu"))


def differentiable(op: Any, dtype: torch.dtype) -> bool:
    """Whether backward is supported for the dtype on a CPU."""
    return bool(op.supports_autograd) and dtype in op.supported_backward_dtypes("cpu")


def inputs(op: Any, kind: str, dtype: torch.dtype) -> Iterable[Any]:
    """The op's SampleInputs of a kind (``sample``, ``reference``), or its ErrorInputs (``error``)."""
    if kind == "error":
        return op.error_inputs("cpu", set_seed=False) if op.error_inputs_func is not None else ()
    wants = differentiable(op, dtype)
    if kind == "sample":
        return op.sample_inputs("cpu", dtype, requires_grad=wants, set_seed=False)
    return () if op.reference_inputs_func is None else _reference_inputs(op, dtype, wants)


def _reference_inputs(op: Any, dtype: torch.dtype, wants_gradient: bool) -> Iterator[Any]:
    """The op's reference inputs; the rest without gradients where the suite itself cannot ask for them.

    A few (of clamp, where, addcmul) hand ``requires_grad`` on to inputs that are not floating.
    """
    given = 0
    try:
        for sample in op.reference_inputs(
            "cpu", dtype, requires_grad=wants_gradient, set_seed=False
        ):
            yield sample
            given += 1
        return
    except ValueError:
        if not wants_gradient:
            raise
    plain = op.reference_inputs("cpu", dtype, requires_grad=False, set_seed=False)
    yield from itertools.islice(plain, given, None)
