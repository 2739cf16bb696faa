"""Start of a worker: ``PYTHON /path/to/bot/worker --in FD --out FD``, by path, under any Python from 3.8 on.

Reads frames from one file descriptor and answers on the other (``protocol.py`` lists the messages). Whatever the
framework prints goes to stdout and stderr, never between frames.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import os
import platform
import sys
from typing import Any, BinaryIO, Callable, Dict, List, Optional

import executor
import framework as frameworks
import numpy
import protocol
from framework import Framework, StartError

SINK_BYTES = 256 << 10  # an outcome up to this size is one write

MakeFramework = Callable[[Dict[str, Any]], Framework]


def main(argv: Optional[List[str]] = None, make_framework: MakeFramework = frameworks.make) -> int:
    """Run a worker until ``stop`` or the end of its input; returns the exit status.

    ``make_framework`` turns a ``hello`` into a framework; another one may wrap or alter what the default gives.
    """
    parser = argparse.ArgumentParser(prog="worker", description="Runs programs for OpDiff.")
    parser.add_argument("--in", dest="input", type=int, required=True, help="descriptor to read")
    parser.add_argument("--out", dest="output", type=int, required=True, help="descriptor to write")
    arguments = parser.parse_args(argv)
    for descriptor in (arguments.input, arguments.output):
        os.set_inheritable(descriptor, False)
    sink = os.fdopen(arguments.output, "wb", SINK_BYTES)
    with os.fdopen(arguments.input, "rb") as source, sink:
        return serve(source, sink, make_framework)


def serve(source: BinaryIO, sink: BinaryIO, make_framework: MakeFramework = frameworks.make) -> int:
    """Answer frames; returns the exit status: 0, or 1 when no framework could be started."""
    try:
        hello, _ = protocol.read_frame(source)
    except EOFError:
        return 0
    started = start(hello, sink, make_framework)
    if started is None:
        return 1
    while True:
        try:
            header, payload = protocol.read_frame(source)
        except EOFError:
            return 0
        kind = header.get("type")
        if kind == "batch":
            run_batch(started, header["programs"], payload, sink)
            if started.worn:
                protocol.write_frame(sink, protocol.RETIREMENT)
                return 0
        elif kind == "names":
            names = sorted(started.table)
            protocol.write_frame(sink, protocol.encode_header({"type": "names", "names": names}))
        elif kind in ("list", "trace"):
            if started.name != "torch":
                _fail(sink, "%s has no programs to trace" % started.name)
                return 1
            # By name: the standard library has a module of the same name, which is not meant.
            tracer: Any = importlib.import_module("trace")
            tracer.handle(header, payload, started, sink)
        elif kind == "signatures" and started.name == "torch":
            reader: Any = importlib.import_module("op_signatures")
            reader.handle(started.table, sink)
        elif kind == "stop":
            return 0
        else:
            _fail(sink, "a worker does not know the message %r" % (kind,))
            return 1


def start(
    hello: Dict[str, Any], sink: BinaryIO, make_framework: MakeFramework
) -> Optional[Framework]:
    """Start the framework that ``hello`` asks for and say ``ready``; None after saying ``failed``."""
    try:
        started = make_framework(hello)
        started.compile_seconds = float(hello.get("compile_seconds", 0))
        facts = started.facts()
    except StartError as error:
        return _fail(sink, str(error))
    except Exception as error:
        # Whatever an import raises: a missing library, another Python's wheel, a broken overlay.
        name, message = executor.describe(error)
        return _fail(sink, "%s does not start: %s: %s" % (hello.get("framework"), name, message))
    ready = {
        "type": "ready",
        "framework": started.name,
        "python": platform.python_version(),
        "numpy": str(numpy.__version__),
        "processor": _processor(),
        "names": len(started.table),
    }
    ready.update(facts)
    protocol.write_frame(sink, protocol.encode_header(ready))
    # What a framework's import leaves, half a million objects, lives as long as the worker: the collector need not
    # look through it again and again.
    gc.collect()
    gc.freeze()
    return started


def run_batch(framework: Framework, programs: List[Any], payload: bytes, sink: BinaryIO) -> None:
    """Run a batch's programs in order; each outcome is flushed before the next program begins.

    Ends early when the framework says that this process is worn.
    """
    at = 0
    address = _address(payload)
    for program_id, size in programs:
        if not 0 <= size <= len(payload) - at:
            raise protocol.ProtocolError("a batch whose programs run past its payload")
        header, parts = executor.run_program(framework, program_id, payload, at, size, address + at)
        if framework.spoiled:  # the program has not begun, and is not to blame
            framework.worn = True
            return
        at += size
        protocol.write_frame(sink, header, *parts)
        if framework.worn:
            return


def _address(blob: bytes) -> int:
    """Where a bytes object's first byte lies in memory; it stays there while the object lives."""
    return ctypes.cast(ctypes.c_char_p(blob), ctypes.c_void_p).value or 0


def _fail(sink: BinaryIO, reason: str) -> None:
    line = " ".join(reason.split())[:500]
    protocol.write_frame(sink, protocol.encode_header({"type": "failed", "reason": line}))


def _processor() -> str:
    """The CPU's model name, for the report; empty where the system does not tell."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
