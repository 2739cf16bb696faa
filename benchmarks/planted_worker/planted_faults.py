"""What goes wrong in a worker with planted faults. PyTorch's interpreter alone imports this."""

import itertools
import os
import signal
import time

import torch


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_of(inner)


def change_first(result, usable, change):
    """``result`` with ``change`` made to its first usable tensor."""
    done = [False]

    def walk(value):
        if isinstance(value, torch.Tensor):
            if not done[0] and usable(value):
                done[0] = True
                return change(value)
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*[walk(inner) for inner in value])
        if type(value) in (list, tuple):
            return type(value)(walk(inner) for inner in value)
        if isinstance(value, tuple):  # torch.return_types
            return type(value)([walk(inner) for inner in value])
        return value

    return walk(result)


def _index(tensor, position):
    return min(int(position * tensor.numel()), tensor.numel() - 1)


def value(result, position):
    """One element off: 1e-3 relative (at least 1e-3) for floats, 1 for integers, flipped for bool."""

    def change(tensor):
        hit = torch.zeros(tensor.numel(), dtype=torch.bool)
        hit[_index(tensor, position)] = True
        hit = hit.reshape(tensor.shape)
        if tensor.dtype == torch.bool:
            return tensor ^ hit
        if tensor.is_floating_point() or tensor.is_complex():
            off = 1e-3 * torch.clamp(tensor.detach().abs(), min=1.0)
            return torch.where(hit, tensor + off.to(tensor.dtype), tensor)
        return torch.where(hit, tensor + 1, tensor)

    return change_first(result, lambda t: t.numel() > 0, change)


def nan(result, position):
    """One element NaN."""

    def change(tensor):
        hit = torch.zeros(tensor.numel(), dtype=torch.bool)
        hit[_index(tensor, position)] = True
        return torch.where(hit.reshape(tensor.shape), torch.full_like(tensor, float("nan")), tensor)

    return change_first(result, lambda t: t.numel() > 0 and t.is_floating_point(), change)


def shape(result, position):
    """A dimension of 1 too many in front."""
    return change_first(result, lambda t: True, lambda t: t.unsqueeze(0))


def dtype(result, position):
    """The same values in another dtype."""
    wider = {
        torch.float32: torch.float64,
        torch.int64: torch.int32,
        torch.bool: torch.uint8,
        torch.complex64: torch.complex128,
        torch.float64: torch.float32,
    }
    return change_first(result, lambda t: t.dtype in wider, lambda t: t.to(wider[t.dtype]))


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, factor):
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def gradient(result, position):
    """The right result with twice the gradient."""
    return change_first(result, lambda t: t.requires_grad, lambda t: _Gradient.apply(t, 2.0))


def swap(result, position):
    """The first two members of a tuple swapped."""
    members = list(result)
    members[0], members[1] = members[1], members[0]
    return tuple(members)


def zero_sign(result, position):
    """-0.0 for every 0.0, and the other way round."""
    return change_first(
        result,
        lambda t: t.is_floating_point(),
        lambda t: torch.where(
            t == 0, torch.copysign(torch.zeros_like(t), -torch.copysign(torch.ones_like(t), t)), t
        ),
    )


def nan_for_inf(result, position):
    """NaN where an infinity is right."""
    return change_first(
        result,
        lambda t: t.is_floating_point() and bool(t.isinf().any()),
        lambda t: torch.where(t.isinf(), torch.full_like(t, float("nan")), t),
    )


AFTER = {f.__name__: f for f in (value, nan, shape, dtype, gradient, swap, zero_sign, nan_for_inf)}


def on_a_copy(value):
    """What an in-place op without its effect works on."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def _channels_last(tensor):
    dense = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return (
        dense is not None
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=dense)
    )


WHEN = {  # what the first tensor argument must be; every 50th call counts calls instead
    "empty": lambda tensor: tensor.numel() == 0,
    "17": lambda tensor: tensor.numel() == 17,
    "channels_last": _channels_last,
}
EVERY = {"50th": 50}


def side_effect(arguments, position):
    """One element of the first floating argument written over."""
    for tensor in tensors_of(list(arguments)):
        if tensor.is_floating_point() and tensor.numel() and tensor.is_contiguous():
            with torch.no_grad():
                flat = tensor.detach().view(-1)
                index = _index(flat, position)
                flat[index] = flat[index] + 1
            return


def planted(original, fault):
    kind, wanted, position = fault["kind"], fault["shape"], fault["position"]
    when, calls = fault.get("when"), itertools.count(1)

    def applies(args, kwargs):
        first = next(tensors_of([*args, *kwargs.values()]), None)
        if when in EVERY and next(calls) % EVERY[when]:
            return False
        if when in WHEN and (first is None or not WHEN[when](first)):
            return False
        return wanted is None or (first is not None and list(first.shape) == wanted)

    def call(*args, **kwargs):
        if not applies(args, kwargs):
            return original(*args, **kwargs)
        if kind == "crash":
            os.abort()
        if kind == "hang":
            time.sleep(3600)
        if kind == "refuses":
            raise RuntimeError("planted: this input is refused")
        if kind == "accepts":
            try:
                return original(*args, **kwargs)
            except Exception:
                return torch.zeros(())
        if kind == "no_effect":
            return original(on_a_copy(args[0]), *args[1:], **kwargs)
        result = original(*args, **kwargs)
        if kind == "side_effect":
            side_effect([*args, *kwargs.values()], position)
            return result
        return AFTER[kind](result, position)

    return call


def planted_compiler(original, faults):
    """``run_compiled`` of a framework with faults, by op, in what the compiled function does."""

    def run_compiled(program, inputs, backward):
        shapes = [list(tensor.shape) for tensor in inputs]
        active = {
            index: faults[op]
            for index, op in enumerate(program.ops)
            if op in faults and (faults[op]["shape"] is None or faults[op]["shape"] in shapes)
        }
        kinds = {fault["kind"] for fault in active.values()}
        if "crash" in kinds:
            os.abort()
        if "hang" in kinds:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        if "refuses" in kinds:
            raise RuntimeError("planted: this input is refused")
        try:
            results = list(original(program, inputs, backward))
        except Exception:
            if "accepts" not in kinds:
                raise
            return [torch.zeros(()) for _ in program.ops]
        for index, fault in active.items():
            if fault["kind"] == "side_effect":
                side_effect(inputs, fault["position"])
            elif fault["kind"] != "accepts":
                results[index] = AFTER[fault["kind"]](results[index], fault["position"])
        return results

    return run_compiled
