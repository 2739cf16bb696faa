"""Answers ``list`` and ``trace``: programs of PyTorch's own OpInfos and ModuleInfos.

Runs in a pinned PyTorch release that never holds a pull request's code. Every entry is seeded on its own, so that
the same request gives the same bytes whatever was traced before.
"""

import warnings
from typing import Any, BinaryIO, Dict, Iterator, List

import torch
import trace_modules
import trace_opinfo
import trace_request
from protocol import encode_header, write_frame
from trace_called import names_called
from trace_tally import Tally

Header = Dict[str, Any]


def handle(header: Header, payload: bytes, framework: Any, stream: BinaryIO) -> None:
    """Answer one message. Raises ValueError for a type that is not ``list`` or ``trace``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if header["type"] == "list":
            write_frame(stream, encode_header({"type": "listed", "entries": list(entries())}))
        elif header["type"] == "trace":
            _trace(header, stream)
        else:
            raise ValueError("not a message for the tracer: %r" % header["type"])


def entries() -> Iterator[Dict[str, Any]]:
    """What can be traced: one row per OpInfo and ModuleInfo.

    ``names`` are the public names of the op and its forms; ``calls`` what one traced sample really calls.
    """
    for op in trace_opinfo.op_infos().values():
        row: Dict[str, Any] = {
            "source": "opinfo",
            "name": op.name,
            "variant": op.variant_test_name,
            "names": trace_opinfo.canonical_names(op),
            "dtypes": trace_opinfo.dtypes_on_cpu(op),
        }
        yield dict(row, calls=names_called(row))
    for name, info in trace_modules.module_infos().items():
        row = {
            "source": "moduleinfo",
            "name": name,
            "variant": "",
            "names": [name],
            "dtypes": trace_modules.dtypes_on_cpu(info),
        }
        yield dict(row, calls=[])


def _trace(request: Header, stream: BinaryIO) -> None:
    tally = Tally()
    if trace_request.is_known(request):
        for written in trace_request.programs(request, tally):
            header = {"type": "program", "digest": written.digest, "op": ""}
            write_frame(stream, encode_header(header), written.blob)
    else:
        tally.case()
        tally.skip("PyTorch %s has no such entry" % torch.__version__)
    write_frame(stream, encode_header(dict(tally.counts(), type="traced")))


__all__: List[str] = ["entries", "handle"]
