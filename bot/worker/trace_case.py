"""One case of an OpInfo, written down in its forms: function, method, in-place."""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import trace_names
from trace_program import CallTracer, ProgramRecorder, register_tensors, tensors_within
from trace_tensors import TensorTable
from trace_values import InexpressibleError

LEAF_IN_PLACE = "a leaf Variable that requires grad"


class Written(NamedTuple):
    """A program: its blob, a digest of everything but its origin, and the form."""

    blob: bytes
    digest: str
    form: str


class Ran(NamedTuple):
    """What a form did when it ran here: the op's result, or what it raised."""

    recorder: ProgramRecorder
    result: Any
    error: Optional[Exception]


class SampleCase:
    """A SampleInput of an OpInfo. ``origin`` holds what is the same for all its forms."""

    def __init__(
        self, op: Any, sample: Any, origin: Dict[str, Any], seed: int, max_bytes: int
    ) -> None:
        self._op = op
        self._sample = sample
        self._origin = origin
        self._seed = seed
        # Copied before anything runs: an op may write to its inputs.
        self._table = TensorTable(max_bytes)
        register_tensors(self._table, [sample.input, *sample.args], sample.kwargs, first="input")

    def forms(self, wanted: Sequence[str], fails: bool = False) -> Iterator[Written]:
        """The case's programs. The function form comes first and decides whether the case can be expressed.

        With ``fails`` the case must raise here, and has no other forms. Raises InexpressibleError.
        """
        ran = self._function_form()
        if fails and ran.error is None:
            raise InexpressibleError("an error input that raised nothing")
        if "function" in wanted or fails:
            yield self._write(ran, "function")
        if fails or ran.error is not None or not isinstance(self._sample.input, torch.Tensor):
            return
        if "method" in wanted:
            yield from self._other_form("method", self._op.method_variant, self._method_form)
        if "inplace" in wanted and self._fits_in_place(ran.result):
            yield from self._other_form("inplace", self._op.inplace_variant, self._in_place_form)

    def restore(self) -> None:
        """Undo what the forms did to the inputs."""
        self._table.restore()

    def _other_form(self, form: str, variant: Any, run: Callable[[Any], Ran]) -> Iterator[Written]:
        if not callable(variant) or variant is self._op.op:
            return
        try:
            yield self._write(run(variant), form)
        except InexpressibleError:
            return  # the function form is expressed; the case is not lost

    def _function_form(self) -> Ran:
        arguments = (self._sample.input, *self._sample.args)
        ran = self._run(self._op.op, arguments)
        if ran.error is not None and LEAF_IN_PLACE in str(ran.error):
            return self._on_a_clone(self._op.op)
        return ran

    def _method_form(self, variant: Any) -> Ran:
        return self._run(variant, (self._sample.input, *self._sample.args))

    def _in_place_form(self, variant: Any) -> Ran:
        return self._on_a_clone(variant)

    def _on_a_clone(self, function: Any) -> Ran:
        recorder = ProgramRecorder(self._table.copy(), self._seed)
        clone = recorder.invoke("clone", torch.clone, (self._sample.input,), {})
        return self._run(function, (clone, *self._sample.args), recorder)

    def _run(
        self, function: Any, args: Tuple[Any, ...], recorder: Optional[ProgramRecorder] = None
    ) -> Ran:
        if recorder is None:
            recorder = ProgramRecorder(self._table.copy(), self._seed)
        kwargs = self._sample.kwargs
        fn = trace_names.function_name(function)
        try:
            if fn is not None:
                return Ran(recorder, recorder.invoke(fn, function, args, kwargs), None)
            with CallTracer(recorder):
                return Ran(recorder, function(*args, **kwargs), None)
        except InexpressibleError:
            raise
        except Exception as error:
            if recorder.reason is not None:
                raise InexpressibleError(recorder.reason) from None
            return Ran(recorder, None, error)

    def _fits_in_place(self, result: Any) -> bool:
        tensor = self._sample.input
        return (
            not self._sample.broadcasts_input
            and isinstance(result, torch.Tensor)
            and result.layout is torch.strided
            and result.dtype == tensor.dtype
            and result.shape == tensor.shape
        )

    def _write(self, ran: Ran, form: str) -> Written:
        origin = dict(self._origin, form=form)
        if form == "function":
            del origin["form"]
        recorder = ran.recorder
        if recorder.reason is not None:
            raise InexpressibleError(recorder.reason)
        if ran.error is not None:
            if not recorder.calls:
                raise InexpressibleError(
                    "raised before any public call: %s" % type(ran.error).__name__
                )
            origin["expected_error"] = type(ran.error).__name__
            return Written(*recorder.finish(recorder.last_output(), [], origin), form=form)
        result, gauge = self._without_gauge(ran)
        if gauge:
            origin["gauge"] = "output_process_fn_grad"
        outputs = recorder.outputs_of(result)
        if not outputs:
            if not recorder.calls:
                raise InexpressibleError("no public call was seen")
            outputs = recorder.last_output()
        return Written(*recorder.finish(outputs, differentiable_outputs(result), origin), form=form)

    def _without_gauge(self, ran: Ran) -> Tuple[Any, bool]:
        """The result after ``output_process_fn_grad``, and whether that did anything (svd, eigh, ...)."""
        before = len(ran.recorder.calls)
        with CallTracer(ran.recorder):
            result = self._sample.output_process_fn_grad(ran.result)
        if ran.recorder.reason is not None:
            raise InexpressibleError(ran.recorder.reason)
        return result, result is not ran.result or len(ran.recorder.calls) > before


def differentiable_outputs(result: Any) -> List[torch.Tensor]:
    """The tensors in an op's result that backward can start from."""
    if isinstance(result, dict):
        result = list(result.values())
    return [
        tensor
        for tensor, _ in tensors_within(result)
        if tensor.requires_grad and tensor.layout is torch.strided
    ]
