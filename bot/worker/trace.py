"""Answers ``list`` and ``trace``: programs of PyTorch's own OpInfos and ModuleInfos.

Runs in a pinned PyTorch release that never holds a pull request's code. Every entry is seeded on its own, so that
the same request gives the same bytes whatever was traced before.
"""

import random
import warnings
import zlib
from typing import Any, BinaryIO, Dict, Iterator, List

import numpy as np
import torch
import trace_opinfo
from protocol import encode_header, write_frame
from trace_case import SampleCase, Written
from trace_tally import Tally
from trace_values import InexpressibleError

Header = Dict[str, Any]
MAX_DATA_BYTES = 64 << 20
KINDS = ("sample", "reference", "error")


def handle(header: Header, payload: bytes, framework: Any, stream: BinaryIO) -> None:
    """Answer one message. Raises ValueError for a type that is not ``list`` or ``trace``."""
    if header["type"] == "list":
        write_frame(stream, encode_header({"type": "listed", "entries": entries()}))
    elif header["type"] == "trace":
        _trace(header, stream)
    else:
        raise ValueError("not a message for the tracer: %r" % header["type"])


def entries() -> List[Dict[str, Any]]:
    """What can be traced: one row per OpInfo and ModuleInfo."""
    return [
        {
            "source": "opinfo",
            "name": op.name,
            "variant": op.variant_test_name,
            "names": trace_opinfo.canonical_names(op),
            "dtypes": trace_opinfo.dtypes_on_cpu(op),
        }
        for op in trace_opinfo.op_infos().values()
    ]


def _trace(request: Header, stream: BinaryIO) -> None:
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for written in _op_programs(request, tally):
            if tally.is_new(written.digest):
                header = {"type": "program", "digest": written.digest, "op": ""}
                write_frame(stream, encode_header(header), written.blob)
    write_frame(stream, encode_header(dict(tally.counts(), type="traced")))


def _reseed(request: Header, *what: str) -> None:
    text = "/".join([request["source"], request["name"], request.get("variant", ""), *what])
    seed = (int(request.get("seed", 0)) * 1_000_003 + zlib.crc32(text.encode())) & 0x7FFFFFFF
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _op_programs(request: Header, tally: Tally) -> Iterator[Written]:
    op = trace_opinfo.op_infos()[request["name"], request.get("variant", "")]
    supported = trace_opinfo.dtypes_on_cpu(op)
    for kind in KINDS:
        if kind not in request["kinds"]:
            continue
        dtypes = [name for name in request["dtypes"] if name in supported]
        # Error inputs come with dtypes of their own.
        for name in dtypes if kind != "error" else ["float32"]:
            _reseed(request, kind, name)
            yield from _cases(op, kind, getattr(torch, name), request, tally)


def _cases(
    op: Any, kind: str, dtype: torch.dtype, request: Header, tally: Tally
) -> Iterator[Written]:
    fixed = {
        "source": "opinfo",
        "name": op.name,
        "variant": op.variant_test_name,
        "kind": kind,
        "tolerance": trace_opinfo.tolerance(op, dtype),
        "nondeterminism_tolerance": float(op.gradcheck_nondet_tol),
        "known": trace_opinfo.known(op, dtype),
    }
    wanted = request["forms"] if kind == "sample" else ["function"]
    index = 0
    samples = iter(())
    try:
        samples = iter(trace_opinfo.inputs(op, kind, dtype))
    except Exception as error:
        tally.lost("making the inputs raised %s" % type(error).__name__)
    while True:
        try:
            sample = next(samples)
        except StopIteration:
            return
        except Exception as error:
            tally.lost("making the inputs raised %s" % type(error).__name__)
            return
        state = torch.get_rng_state()
        yield from _forms_of(op, sample, dict(fixed, index=index), wanted, request, tally)
        # What a case draws while it runs must not change the inputs of the next.
        torch.set_rng_state(state)
        index += 1


def _forms_of(
    op: Any,
    sample: Any,
    origin: Dict[str, Any],
    wanted: List[str],
    request: Header,
    tally: Tally,
) -> Iterator[Written]:
    tally.case()
    fails = origin["kind"] == "error"
    sample = sample.sample_input if fails else sample
    origin = {key: value for key, value in origin.items() if value}
    if origin["kind"] == "sample":
        del origin["kind"]
    if sample.broadcasts_input:
        origin["broadcasts_input"] = True
    try:
        case = SampleCase(op, sample, origin, int(request.get("seed", 0)), MAX_DATA_BYTES)
        expressed = False
        for written in case.forms(wanted, fails):
            if not expressed:
                tally.expressed()
                expressed = True
            yield written
    except InexpressibleError as problem:
        tally.skip(str(problem))
    except Exception as error:
        import traceback

        traceback.print_exc()
        tally.skip("tracing raised %s" % type(error).__name__)
