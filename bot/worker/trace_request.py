"""Turns one ``trace`` request into programs: seeds, walks the cases and counts what came of each."""

import random
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple

import numpy as np
import torch
import trace_modules
import trace_opinfo
from trace_case import SampleCase, Written
from trace_memory import ZeroedMemory
from trace_tally import Tally
from trace_values import InexpressibleError

Request = Dict[str, Any]
MAX_DATA_BYTES = 64 << 20  # of one case's inputs
KINDS = ("sample", "reference", "error")


class Subject(NamedTuple):
    """What is traced: an OpInfo or a ModuleInfo behind one interface."""

    info: Any
    dtypes: List[str]
    inputs: Callable[[Any, str, torch.dtype], Iterable[Any]]
    case: Callable[..., Any]


def subject_of(request: Request) -> Subject:
    """The OpInfo or ModuleInfo that a request names. Raises KeyError."""
    if request["source"] == "moduleinfo":
        info = trace_modules.module_infos()[request["name"]]
        return Subject(info, trace_modules.dtypes_on_cpu(info), trace_modules.inputs, _module_case)
    op = trace_opinfo.op_infos()[request["name"], request.get("variant", "")]
    return Subject(op, trace_opinfo.dtypes_on_cpu(op), trace_opinfo.inputs, _sample_case)


def is_known(request: Request) -> bool:
    """Whether the release has the OpInfo or ModuleInfo that a request names."""
    if request["source"] == "moduleinfo":
        return request["name"] in trace_modules.module_infos()
    return (request["name"], request.get("variant", "")) in trace_opinfo.op_infos()


def programs(request: Request, tally: Tally) -> Iterator[Written]:
    """The programs of a request, in an order that depends on the request alone."""
    subject = subject_of(request)
    for kind in KINDS:
        if kind not in request["kinds"]:
            continue
        names = [name for name in request["dtypes"] if name in subject.dtypes]
        # Error inputs come with dtypes of their own.
        for name in names if kind != "error" else ["float32"]:
            _reseed(request, kind, name)
            for written in _cases(subject, kind, getattr(torch, name), request, tally):
                if tally.is_new(written.digest):
                    yield written


def _reseed(request: Request, *what: str) -> None:
    """Seed every generator for an entry, a kind and a dtype alone, whatever was traced before."""
    text = "/".join([request["source"], request["name"], request.get("variant", ""), *what])
    seed = (int(request.get("seed", 0)) * 1_000_003 + zlib.crc32(text.encode())) & 0x7FFFFFFF
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _origin(subject: Subject, request: Request, kind: str, dtype: torch.dtype) -> Dict[str, Any]:
    info = subject.info
    fields = {
        "source": request["source"],
        "name": request["name"],
        "variant": request.get("variant", ""),
        "kind": "" if kind == "sample" else kind,
        "tolerance": trace_opinfo.tolerance(info, dtype),
        "nondeterminism_tolerance": float(info.gradcheck_nondet_tol),
        "known": trace_opinfo.known(info, dtype),
    }
    return {key: value for key, value in fields.items() if value}


def _cases(
    subject: Subject, kind: str, dtype: torch.dtype, request: Request, tally: Tally
) -> Iterator[Written]:
    origin = _origin(subject, request, kind, dtype)
    wanted = request["forms"] if kind == "sample" else ["function", "module"]
    for index, sample in enumerate(_samples(subject, kind, dtype, tally)):
        state = torch.get_rng_state()
        fields = dict(origin, index=index) if index else origin
        yield from _forms(subject, sample, kind, dtype, fields, wanted, request, tally)
        # What a case draws while it runs must not change the inputs of the next.
        torch.set_rng_state(state)


def _samples(subject: Subject, kind: str, dtype: torch.dtype, tally: Tally) -> Iterator[Any]:
    """The inputs that the suite gives; where making one raises, that ends them and is counted."""
    end = object()
    samples: Iterator[Any] = iter(())
    sample: Any = None
    while sample is not end:
        try:
            with ZeroedMemory():
                if sample is None:
                    samples = iter(subject.inputs(subject.info, kind, dtype))
                sample = next(samples, end)
        except Exception as error:
            tally.case()
            tally.skip("making the inputs raised %s" % type(error).__name__)
            return
        if sample is not end:
            yield sample


def _forms(
    subject: Subject,
    sample: Any,
    kind: str,
    dtype: torch.dtype,
    origin: Dict[str, Any],
    wanted: List[str],
    request: Request,
    tally: Tally,
) -> Iterator[Written]:
    tally.case()
    expressed = False
    case: Any = None
    try:
        case = subject.case(subject.info, sample, dtype, origin, int(request.get("seed", 0)))
        for written in case.forms(wanted, kind == "error"):
            if not expressed:
                tally.expressed()
                expressed = True
            yield written
    except InexpressibleError as problem:
        tally.skip(str(problem))
    except Exception as error:
        if not expressed:
            tally.skip("tracing raised %s" % type(error).__name__)
    finally:
        if case is not None:
            case.restore()


def _sample_case(
    op: Any, sample: Any, dtype: torch.dtype, origin: Dict[str, Any], seed: int
) -> SampleCase:
    sample = getattr(sample, "sample_input", sample)  # an ErrorInput holds a SampleInput
    if sample.broadcasts_input:
        origin = dict(origin, broadcasts_input=True)
    return SampleCase(op, sample, origin, seed, MAX_DATA_BYTES)


def _module_case(
    info: Any, sample: Any, dtype: torch.dtype, origin: Dict[str, Any], seed: int
) -> trace_modules.ModuleCase:
    return trace_modules.ModuleCase(info, sample, dtype, origin, seed, MAX_DATA_BYTES)
