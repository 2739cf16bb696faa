"""ModuleInfos of PyTorch's own test-suite: modules with their state, made and called by recorded calls."""

from functools import lru_cache
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

import torch
import trace_names
from trace_case import Written, differentiable_outputs
from trace_program import ProgramRecorder, register_tensors
from trace_tensors import TensorTable
from trace_values import InexpressibleError, dtype_name


class ModuleSample(NamedTuple):
    """A ModuleInput, and whether the module is in training mode."""

    given: Any
    training: bool
    fails: bool = False


@lru_cache(maxsize=None)
def module_infos() -> Dict[str, Any]:
    """``nn.Conv2d -> ModuleInfo`` for the classes that a program may name."""
    from torch.testing._internal.common_modules import module_db

    named = ((trace_names.function_name(info.module_cls), info) for info in module_db)
    return {name: info for name, info in named if name is not None}


def dtypes_on_cpu(info: Any) -> List[str]:
    """Canonical names of the dtypes that the module supports on a CPU."""
    return sorted(dtype_name(dtype) for dtype in info.supported_dtypes("cpu"))


def inputs(info: Any, kind: str, dtype: torch.dtype) -> Iterator[ModuleSample]:
    """The module's inputs in training mode and, where that differs, in evaluation mode."""
    if kind == "reference" or (kind == "error" and info.module_error_inputs_func is None):
        return
    make = info.module_inputs_func if kind == "sample" else info.module_error_inputs_func
    both = info.train_and_eval_differ and kind == "sample"
    for training in (True, False) if both else (True,):
        for given in make(
            info, device="cpu", dtype=dtype, requires_grad=kind == "sample", training=training
        ):
            if kind == "error":
                yield ModuleSample(given.module_error_input, training, True)
            else:
                yield ModuleSample(given, training)


class ModuleCase:
    """One ModuleInput of a ModuleInfo; its only form is ``module``."""

    def __init__(
        self,
        info: Any,
        sample: ModuleSample,
        dtype: torch.dtype,
        origin: Dict[str, Any],
        seed: int,
        max_bytes: int,
    ) -> None:
        self._info = info
        self._sample = sample
        self._dtype = dtype
        self._origin = dict(origin, form="module")
        self._table = table = TensorTable(max_bytes)
        forward = sample.given.forward_input
        if forward is not None:
            register_tensors(table, forward.args, forward.kwargs, first="input")
        self._recorder = ProgramRecorder(table, seed)

    def forms(self, wanted: Sequence[str], fails: bool = False) -> Iterator[Written]:
        """The case's program. Raises InexpressibleError, also for an error input that does not raise here."""
        recorder = self._recorder
        try:
            result = self._run()
        except InexpressibleError:
            raise
        except Exception as error:
            origin = dict(self._origin, expected_error=type(error).__name__)
            yield Written(*recorder.finish(recorder.last_output(), [], origin), form="module")
            return
        if fails:
            raise InexpressibleError("an error input that raised nothing")
        outputs = recorder.outputs_of(result) or recorder.last_output()
        gradients = differentiable_outputs(result)
        yield Written(*recorder.finish(outputs, gradients, self._origin), form="module")

    def restore(self) -> None:
        """Undo what the module did to its inputs."""
        self._table.restore()

    def _run(self) -> Any:
        recorder = self._recorder
        given = self._sample.given
        name = module_name(self._info)
        construct = given.constructor_input
        module = recorder.invoke(
            name, self._info.module_cls, construct.args, construct.kwargs, draws=False
        )
        module.to(self._dtype)
        _require_ordinary(module)
        recorder.set_state(module, recorder.calls[-1]["result"])
        if not self._sample.training:
            recorder.invoke("nn.Module.eval", torch.nn.Module.eval, (module,), {})
        if given.forward_input is None:
            return None
        forward = given.forward_input
        call = torch.nn.Module.__call__
        return recorder.invoke("nn.Module.__call__", call, (module, *forward.args), forward.kwargs)


def module_name(info: Any) -> str:
    """The canonical name of a ModuleInfo's class, which :func:`module_infos` found."""
    return str(trace_names.function_name(info.module_cls))


def _require_ordinary(module: torch.nn.Module) -> None:
    lazy = torch.nn.parameter.UninitializedTensorMixin
    if any(isinstance(tensor, lazy) for tensor in [*module.parameters(), *module.buffers()]):
        raise InexpressibleError("a lazy module, which has no state before its first call")
