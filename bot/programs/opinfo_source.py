"""OpInfoSource: programs of the OpInfos and ModuleInfos of a pinned PyTorch release.

The tracer runs inside that release (``bot/worker/trace.py``), in a process that never holds a pull request's code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bot.programs.op_groups import group_of
from bot.programs.op_index import OpIndex, short_name
from bot.programs.program import ProgramError, canonical_json, decode, split
from bot.programs.source import SourceCounts, SourcedProgram, SourceEntry, SourceRequest
from bot.programs.source_cache import MAX_KEPT_BYTES, SourceCache, Traced, count_of, skipped_of
from bot.targets.worker_process import WorkerDeath
from bot.worker.protocol import Header, ProtocolError

PINNED_RELEASE = "torch==2.13.0"
LIST_SECONDS = 600.0
PROGRAM_SECONDS = 300.0  # the longest wait for one program
TRACE_ATTEMPTS = (
    2  # a tracer can be killed for no fault of the entry, such as a machine's lack of memory
)
_LENGTH_BYTES = 4
_ALIGNMENT = 64
_WORKER = Path(__file__).resolve().parent.parent / "worker"
_MODULE_CALLS = frozenset(("nn.Module.__call__", "nn.Module.eval", "nn.Module.train"))


class TraceWorker(Protocol):
    """A worker that answers ``list`` and ``trace``; :class:`bot.targets.worker_process.WorkerProcess` is one."""

    def ask(
        self, header: Header, *payload: bytes, until: str, seconds: float
    ) -> Iterator[tuple[Header, bytes]]:
        """Send a message and yield the answers, the one of type ``until`` last."""
        ...


OpenWorker = Callable[[], AbstractContextManager[TraceWorker]]
"""Starts a worker in the pinned release; it is gone when the context ends."""


class _Row(BaseModel):
    """One entry of a ``listed`` message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(max_length=20)
    name: str = Field(max_length=200)
    variant: str = Field(max_length=200)
    names: list[str]
    dtypes: list[str]
    calls: list[str]

    def entry(self) -> SourceEntry:
        """The entry, its op group worked out."""
        return SourceEntry(
            source=self.source,
            name=self.name,
            variant=self.variant,
            group=self._group(),
            names=tuple(self.names),
            dtypes=tuple(self.dtypes),
            calls=tuple(self.calls),
        )

    def _group(self) -> str:
        """The group of its own name; where it has none (a lambda), that of the call which is named like it."""
        if self.names:
            return group_of(self.names[0])
        groups = [group_of(name) for name in self.calls]
        alike = [group for group in groups if short_name(group) == short_name(self.name)]
        return (alike or groups or [self.name])[-1]


_ROWS = TypeAdapter(list[_Row])


class OpInfoSource:
    """Programs by entry. A context manager: its worker starts when first needed and ends with it.

    ``environment_digest`` identifies the pinned environment; with it, the tracer's code and the request, an answer is
    kept in ``cache``.
    """

    def __init__(
        self, open_worker: OpenWorker, environment_digest: str, cache: SourceCache | None = None
    ) -> None:
        self._open_worker = open_worker
        self._cache = cache
        self._identity = {"environment": environment_digest, "tracer": tracer_digest()}
        self._stack = ExitStack()
        self._worker: TraceWorker | None = None
        self._index: OpIndex | None = None
        self._entries: tuple[SourceEntry, ...] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, if there is one, and keep the cache within its bound."""
        self._drop_worker()
        if self._cache is not None:
            self._cache.prune()

    def entries(self) -> tuple[SourceEntry, ...]:
        """Everything that the release's suite offers. Raises TargetError or WorkerDeath without an answer."""
        if self._entries is None:
            self._entries = self._cached_entries() or self._list()
        return self._entries

    def index(self) -> OpIndex:
        """The entries by op."""
        if self._index is None:
            self._index = OpIndex(self.entries())
        return self._index

    def programs(
        self, requests: Iterable[SourceRequest], counts: SourceCounts
    ) -> Iterator[SourcedProgram]:
        """The programs of all requests, each once; what came of the cases is added to ``counts``.

        An entry on which the tracer dies twice is counted as skipped.
        """
        seen: set[str] = set()
        for request in requests:
            for program in self._request(request, counts):
                if program.digest not in seen:
                    seen.add(program.digest)
                    counts.programs += 1
                    yield program

    def _request(self, request: SourceRequest, counts: SourceCounts) -> Iterator[SourcedProgram]:
        key = self._identity | {"request": _message(request)}
        cached = self._cache.read(key) if self._cache is not None else None
        if cached is not None:
            _count(counts, cached)
            yield from cached.programs
            return
        how = ""
        for _ in range(TRACE_ATTEMPTS):
            try:
                yield from self._trace(request, counts, key)
                return
            except (WorkerDeath, ProtocolError) as problem:
                self._drop_worker()
                how = problem.signal if isinstance(problem, WorkerDeath) else str(problem)
        counts.cases += 1
        counts.merge_skipped({f"the tracer failed: {how}"[:200]: 1})

    def _trace(
        self, request: SourceRequest, counts: SourceCounts, key: dict[str, Any]
    ) -> Iterator[SourcedProgram]:
        """Programs as the tracer gives them, and into the cache when all have come."""
        kept: list[SourcedProgram] | None = []
        kept_bytes = 0
        traced: Traced | None = None
        answers = self._start().ask(_message(request), until="traced", seconds=PROGRAM_SECONDS)
        try:
            for header, payload in answers:
                if header.get("type") == "program":
                    try:
                        program = grouped(payload, request.entry)
                    except ProgramError as problem:
                        counts.merge_skipped({f"not a program: {problem}"[:200]: 1})
                        kept = None
                        continue
                    kept_bytes += len(program.blob)
                    if (
                        kept is not None
                        and self._cache is not None
                        and kept_bytes <= MAX_KEPT_BYTES
                    ):
                        kept.append(program)
                    else:
                        kept = None
                    yield program
                else:
                    traced = _traced(header, kept or [])
        except GeneratorExit:
            self._drop_worker()  # it is still sending: a new one is cheaper than reading on
            raise
        if traced is None:
            raise ProtocolError("the tracer did not say what it skipped")
        _count(counts, traced)
        if kept is not None and self._cache is not None:
            self._cache.write(key, traced)

    def _start(self) -> TraceWorker:
        if self._worker is None:
            self._worker = self._stack.enter_context(self._open_worker())
        return self._worker

    def _drop_worker(self) -> None:
        self._worker = None
        self._stack.close()

    def _list(self) -> tuple[SourceEntry, ...]:
        for header, _ in self._start().ask({"type": "list"}, until="listed", seconds=LIST_SECONDS):
            if header.get("type") == "listed":
                text = canonical_json(header.get("entries"))
                entries = _parse_entries(text)
                if entries is None:
                    raise ProtocolError("the tracer's list of entries does not add up")
                if self._cache is not None:
                    self._cache.write_json(self._list_key, text)
                return entries
        raise ProtocolError("the tracer gave no list of entries")

    def _cached_entries(self) -> tuple[SourceEntry, ...] | None:
        text = self._cache.read_json(self._list_key) if self._cache is not None else None
        return _parse_entries(text) if text is not None else None

    @property
    def _list_key(self) -> dict[str, Any]:
        return self._identity | {"request": "list"}


def tracer_digest() -> str:
    """Identifies the code that a program's bytes depend on besides the release: the tracer's and the op groups'."""
    here = Path(__file__).parent
    files = [
        *_WORKER.glob("trace*.py"), *_WORKER.glob("torch_names.py"), *_WORKER.glob("torch_unlisted.py"),
        here / "op_groups.py", here / "op_groups.yml", here / "opinfo_source.py", here / "program.py",
    ]  # fmt: skip
    state = hashlib.blake2b(digest_size=16)
    for file in sorted(files):
        state.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()


def grouped(blob: bytes, entry: SourceEntry) -> SourcedProgram:
    """A tracer's program with its op group filled in, validated. Raises ProgramError."""
    text, data = split(blob)
    try:
        fields = json.loads(text)
        fields["op"] = program_group([str(call["fn"]) for call in fields["calls"]], entry)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProgramError(f"the tracer's program does not add up: {error!r}"[:300]) from None
    text = canonical_json(fields)
    head = len(text).to_bytes(_LENGTH_BYTES, "little") + text
    final = b"".join((head, b"\0" * (-len(head) % _ALIGNMENT), data))
    decode(final)
    fields.pop("origin", None)
    state = hashlib.blake2b(canonical_json(fields), digest_size=16)
    state.update(data)
    return SourcedProgram(final, state.hexdigest(), fields["op"])


def program_group(calls: list[str], entry: SourceEntry) -> str:
    """The op group that a traced program counts under.

    One call: its own. Several: the entry's, if one of them belongs to it, else the last one's. A module's class
    speaks for the call of the module.
    """
    groups = [group_of(name) for name in calls if name not in _MODULE_CALLS]
    if len(groups) > 1 and entry.group in groups:
        return entry.group
    return groups[-1] if groups else entry.group


def _message(request: SourceRequest) -> Header:
    return {
        "type": "trace",
        "source": request.entry.source,
        "name": request.entry.name,
        "variant": request.entry.variant,
        "dtypes": list(request.dtypes),
        "kinds": list(request.kinds),
        "forms": list(request.forms),
        "seed": request.seed,
    }


def _traced(header: Header, programs: list[SourcedProgram]) -> Traced:
    counts = header.get("counts")
    return Traced(
        tuple(programs),
        count_of(counts, "cases"),
        count_of(counts, "expressed"),
        skipped_of(header),
    )


def _count(counts: SourceCounts, traced: Traced) -> None:
    counts.cases += traced.cases
    counts.expressed += traced.expressed
    counts.merge_skipped(traced.skipped)


def _parse_entries(text: bytes) -> tuple[SourceEntry, ...] | None:
    try:
        rows = _ROWS.validate_json(text)
    except ValidationError:
        return None
    return tuple(row.entry() for row in rows)
