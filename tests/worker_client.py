"""A bare client of a worker: starts one, sends frames, reads frames. Tests of the worker need no pool."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bot.targets.outcome import Outcome, decode_outcome
from bot.worker import protocol

WORKER = Path(__file__).parents[1] / "bot" / "worker"


class WorkerClient:
    """A worker process and both ends of its pipes. A context manager."""

    def __init__(
        self,
        hello: Mapping[str, Any],
        python: Path = Path(sys.executable),
        script: Path = WORKER,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        to_worker, self._write = os.pipe()
        self._read, from_worker = os.pipe()
        self.process = subprocess.Popen(
            [python, script, "--in", str(to_worker), "--out", str(from_worker)],
            pass_fds=(to_worker, from_worker),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        os.close(to_worker)
        os.close(from_worker)
        self._sink = os.fdopen(self._write, "wb")
        self._source = os.fdopen(self._read, "rb")
        self.send({"type": "hello", "device": "cpu", "options": {}, "threads": 1, **hello})
        self.ready = self.receive()

    def send(self, header: dict[str, Any], *payload: bytes) -> None:
        protocol.write_frame(self._sink, protocol.encode_header(header), *payload)

    def receive(self) -> dict[str, Any]:
        return protocol.read_frame(self._source)[0]

    def raw(self, blobs: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """The outcome frames of a batch, as they came."""
        programs = [[number, len(blob)] for number, blob in enumerate(blobs)]
        self.send({"type": "batch", "programs": programs}, *blobs)
        return [protocol.read_raw_frame(self._source) for _ in blobs]

    def run(self, *blobs: bytes) -> list[Outcome]:
        return [decode_outcome(header, payload) for header, payload in self.raw(blobs)]

    def stop(self) -> int:
        self.send({"type": "stop"})
        return self.process.wait(30)

    def close(self) -> None:
        self._sink.close()
        self._source.close()
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> WorkerClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
