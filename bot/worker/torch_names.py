"""The allow-list of PyTorch: which public callables a program may name, generated from the installed PyTorch.

The rule. PyTorch itself lists, in ``torch.overrides.get_overridable_functions()``, every public callable that takes
tensors and gives values; each of them that is reached by a public name of its namespace is allowed, save

- names that begin with an underscore, other than the operators in :data:`OPERATORS`;
- :data:`REFUSED`: what reaches raw memory, files, devices' or processes' state, pickling or Python callables.

Callables that make tensors take none, so PyTorch does not list them there; no property of a function tells whether it
touches files or global state, so :data:`FACTORIES` names the harmless ones. Module classes are those that
``torch.nn`` exports, save :data:`REFUSED_MODULES`, plus the methods in :data:`MODULE_METHODS`.

A name is the public path without ``torch.``; ``functional.norm`` is ``norm``, as users write it.
"""

from __future__ import annotations

import types
import warnings
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

import torch
import torch_unlisted

Table = Dict[str, Callable[..., Any]]

OPERATORS = frozenset(
    """
    __abs__ __add__ __and__ __bool__ __complex__ __contains__ __div__ __eq__ __float__ __floordiv__ __ge__ __getitem__
    __gt__ __iadd__ __iand__ __idiv__ __ifloordiv__ __ilshift__ __imod__ __imul__ __index__ __int__ __invert__ __ior__
    __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __le__ __len__ __lshift__ __lt__ __matmul__ __mod__ __mul__
    __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rdiv__ __reversed__ __rfloordiv__ __rlshift__
    __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __setitem__
    __sub__ __truediv__ __xor__
    """.split()
)

REFUSED = frozenset(
    """
    Tensor.apply_ Tensor.map_ Tensor.map2_ Tensor.backward Tensor.register_hook Tensor.requires_grad_
    Tensor.register_post_accumulate_grad_hook Tensor.retain_grad Tensor.reinforce
    Tensor.share_memory_ Tensor.is_shared Tensor.pin_memory Tensor.is_pinned Tensor.record_stream Tensor.numpy
    Tensor.data_ptr Tensor.const_data_ptr Tensor.mutable_data_ptr Tensor.storage Tensor.untyped_storage
    Tensor.storage_type Tensor.set_ Tensor.module_load Tensor.as_subclass
    Tensor.cuda Tensor.xpu Tensor.ipu Tensor.hpu Tensor.mtia Tensor.get_device get_device
    Tensor.name.__get__ Tensor.grad_fn.__get__ Tensor.volatile.__get__ Tensor.output_nr.__get__
    Tensor.names.__get__ Tensor.data.__get__ Tensor.grad.__get__ Tensor.grad_dtype.__get__
    autocast is_distributed Tensor.is_distributed
    """.split()
)

FACTORIES = frozenset(
    """
    arange as_strided as_tensor asarray bartlett_window blackman_window broadcast_shapes can_cast empty empty_permuted
    empty_strided eye fft.fftfreq fft.rfftfreq fill full hamming_window hann_window is_tensor kaiser_window linspace
    logspace nn.functional.grouped_mm nn.functional.hardsigmoid nn.functional.hardswish
    nn.functional.scaled_grouped_mm nn.functional.scaled_mm nn.functional.sigmoid nn.functional.tanh
    nn.functional.celu_ nn.functional.elu_ nn.functional.hardtanh_ nn.functional.leaky_relu_ nn.functional.relu_
    nn.functional.rrelu_ nn.functional.selu_ nn.functional.threshold_ relu_
    nn.functional.upsample nn.functional.upsample_bilinear nn.functional.upsample_nearest normal ones promote_types
    rand rand_like randint randint_like randn randn_like randperm range result_type scalar_tensor
    sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
    sparse_csr_tensor tensor tril_indices triu_indices vander zeros
    Tensor.as_strided Tensor.new Tensor.new_empty Tensor.new_empty_strided Tensor.new_full Tensor.new_ones
    Tensor.new_tensor Tensor.new_zeros Tensor.stride Tensor.to_padded_tensor Tensor.to_sparse_bsc
    Tensor.to_sparse_bsr Tensor.to_sparse_csc Tensor.to_sparse_csr Tensor.unflatten
    signal.windows.bartlett signal.windows.blackman signal.windows.cosine signal.windows.exponential
    signal.windows.gaussian signal.windows.general_cosine signal.windows.general_hamming signal.windows.hamming
    signal.windows.hann signal.windows.kaiser signal.windows.nuttall
    nn.init.constant_ nn.init.dirac_ nn.init.eye_ nn.init.kaiming_normal_ nn.init.kaiming_uniform_ nn.init.normal_
    nn.init.ones_ nn.init.orthogonal_ nn.init.sparse_ nn.init.trunc_normal_ nn.init.uniform_ nn.init.xavier_normal_
    nn.init.xavier_uniform_ nn.init.zeros_
    """.split()
)

REFUSED_MODULES = frozenset(("DataParallel", "Module", "Container"))
MODULE_METHODS = ("__call__", "eval", "train")


def _namespaces() -> Iterator[Tuple[str, Any]]:
    """Prefix and namespace; where two hold one object, the later one's name is canonical."""
    yield "", torch
    yield "special.", getattr(torch, "special", None)
    yield "fft.", torch.fft
    yield "linalg.", torch.linalg
    yield "nn.functional.", torch.nn.functional
    yield "Tensor.", torch.Tensor


def build_table() -> Table:
    """Canonical name -> callable, for everything that the rule above allows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        allowed = _overridable()
        table: Table = {}
        for prefix, namespace in _namespaces():
            if namespace is not None:
                table.update(_public(prefix, namespace, allowed))
        table.update(_factories())
        table.update(_modules())
        table.update(torch_unlisted.operators())
    return table


def canonical_names(table: Table) -> Dict[Any, str]:
    """Callable -> its canonical name: what a tracer needs. A later namespace wins, as in :func:`build_table`."""
    names: Dict[Any, str] = {}
    for name, function in table.items():
        names[function] = name
    return names


def _overridable() -> Set[Any]:
    found: Set[Any] = set()
    listed: Dict[Any, List[Any]] = torch.overrides.get_overridable_functions()
    for functions in listed.values():
        for function in functions:
            try:
                found.add(function)
            except TypeError:
                continue
    return found


def _public(prefix: str, namespace: Any, allowed: Set[Any]) -> Table:
    table: Table = {}
    for attribute in dir(namespace):
        if attribute.startswith("_") and attribute not in OPERATORS:
            continue
        name = prefix + attribute
        function = getattr(namespace, attribute, None)
        if isinstance(function, (property, types.GetSetDescriptorType)) and prefix == "Tensor.":
            name += ".__get__"
            function = function.__get__
        if name in REFUSED or isinstance(function, type) or not callable(function):
            continue
        if function in allowed or (prefix == "Tensor." and attribute in OPERATORS):
            table[name] = function
    return table


def _factories() -> Table:
    table: Table = {}
    for name in FACTORIES:
        parts = name.split(".")
        found: Any = torch
        for part in parts:
            found = getattr(found, part, None)
        if callable(found):
            table[name] = found
    return table


def _modules() -> Table:
    table: Table = {}
    for name in dir(torch.nn):
        cls = getattr(torch.nn, name)
        if (
            isinstance(cls, type)
            and issubclass(cls, torch.nn.Module)
            and name not in REFUSED_MODULES
            and cls.__module__.startswith("torch.nn.modules.")
        ):
            table["nn." + name] = cls
    for method in MODULE_METHODS:
        table["nn.Module." + method] = getattr(torch.nn.Module, method)
    return table
