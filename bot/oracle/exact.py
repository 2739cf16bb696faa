"""The slow path: every exact rule on one program's decoded outcomes, all targets at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from bot.oracle.conventions import Conventions
from bot.oracle.counts import ROLE_FIELD, Counts, TargetStatus
from bot.oracle.finding import Kind, Mismatch, Observation
from bot.oracle.initial import InitialTensors
from bot.oracle.observe import death_text, error_text
from bot.oracle.sides import partition_by
from bot.oracle.signature import death_signature, exception_signature, first_line
from bot.oracle.tensors import Party, Subject, TensorRules
from bot.programs.program import decode
from bot.programs.source import SourcedProgram
from bot.targets.outcome import Death, Outcome, RawOutcome, Tensor
from bot.worker.protocol import ProtocolError

Key = tuple[str, str, tuple[int, ...]]
_DEATHS = ("crash", "hang", "memory")
PYTORCH = "torch"  # whose tests programs are made of
_ROLE_ORDER = {role: order for order, role in enumerate(ROLE_FIELD)}


def decoded(raw: RawOutcome) -> Outcome:
    """An outcome decoded; words that don't add up count as a crash, for nothing they say can be used.

    They are at hand, so that there is nothing to confirm.
    """
    try:
        return raw.decode()
    except ProtocolError as problem:
        return Outcome("crash", death=Death("protocol", str(problem), confirmed=True))


class ExactComparison:
    """The comparison of one program's outcomes: its mismatches, counts and statuses, made on construction."""

    def __init__(
        self,
        program: SourcedProgram,
        outcomes: Sequence[RawOutcome],
        parties: Sequence[Party],
        conventions: Conventions,
    ) -> None:
        self._source = program
        self._digest = program.digest
        self._parties = parties
        self._conventions = conventions
        self._outcomes = [decoded(raw) for raw in outcomes]
        self._by_contract = self._by_convention = 0
        self._counted: dict[str, int] = {}
        self._skipped: list[str] = []
        self.mismatches: tuple[Mismatch, ...] = tuple(self._compare())
        self.counts = Counts(
            **self._counted,
            by_contract=self._by_contract,
            by_convention=self._by_convention,
            skipped=tuple(self._skipped),
        )
        self.statuses = tuple(map(_status, self._outcomes))

    def _compare(self) -> list[Mismatch]:
        found = [*self._deaths(), *self._withdrawn()]
        for party, outcome in zip(self._parties, self._outcomes, strict=True):
            if without_gradients(outcome):
                self._skipped.append(f"gradients unsupported on {party.label}: {_reason(outcome)}")
            elif outcome.status in ("unsupported", "refused"):
                self._skipped.append(f"{outcome.status} on {party.label}: {_reason(outcome)}")
            elif outcome.status in _DEATHS:
                self._skipped.append(f"{outcome.status} on {party.label}")
        if len(self._alive) < 2:
            return found
        groups = self._bound_alike()
        if not groups:
            self._skipped.append("illegal input: no two targets document the same interface")
            return found
        self._counted["compared"] = 1
        for bound in groups:
            found += self._exceptions(bound)
            found += self._tensors(bound)
            found += self._values(bound)
        self._by_contract = self._rules.by_contract
        self._by_convention = self._rules.by_convention
        return found

    # The program is decoded only when a rule asks for it: most outcomes that come here are unsupported.

    @cached_property
    def _initial(self) -> InitialTensors:
        return InitialTensors(*decode(self._source.blob))

    @cached_property
    def _rules(self) -> TensorRules:
        return TensorRules(self._initial, self._digest, self._source.op, self._conventions)

    @cached_property
    def _alive(self) -> list[int]:
        """The targets with something to compare: a result or an exception."""
        return [
            i
            for i, o in enumerate(self._outcomes)
            if o.status in ("ok", "exception") or without_gradients(o)
        ]

    def _bound_alike(self) -> list[list[int]]:
        """The targets with something to compare, in groups of those that must do the same.

        That an input is illegal is PyTorch's word: it binds the frameworks that document PyTorch's interface. Others
        have contracts of their own, and a call that our mapping composes has none; each framework is held to itself.
        """
        if not self._is_illegal:
            return [self._alive]
        groups: dict[str, list[int]] = {}
        for index in self._alive:
            contract = self._conventions.contract(self._parties[index].framework)
            groups.setdefault(contract, []).append(index)
        return [members for members in groups.values() if len(members) > 1]

    @cached_property
    def _is_illegal(self) -> bool:
        """An error input, or a mutated program that every PyTorch refuses."""
        origin = self._initial.program.origin
        if origin.kind == "error":
            return True
        own = [self._outcomes[i] for i in self._alive if self._parties[i].framework == PYTORCH]
        return (
            origin.source == "mutation"
            and bool(own)
            and all(o.status == "exception" and o.phase == "forward" for o in own)
        )

    # deaths

    def _deaths(self) -> list[Mismatch]:
        died = [i for i, o in enumerate(self._outcomes) if o.status in _DEATHS]
        found: list[Mismatch] = []
        for kind in ("crash", "hang", "memory"):
            of_kind = [i for i in died if self._outcomes[i].status == kind]
            if not of_kind or (kind != "crash" and len(of_kind) == len(self._outcomes)):
                continue
            signatures = [
                death_signature(o.death) if o.status == kind else "" for o in self._outcomes
            ]
            note = min(signatures[i] for i in of_kind)
            found.append(self._event(kind, range(len(self._outcomes)), signatures, note))
        return found

    # support

    def _withdrawn(self) -> list[Mismatch]:
        """What a target lacks that it must keep: a candidate has taken something away.

        Where the baseline raises or dies it supports nothing that could be taken away.
        """
        found: list[Mismatch] = []
        places = {party.label: place for place, party in enumerate(self._parties)}
        for index, party in enumerate(self._parties):
            kept = places.get(party.held_to)
            lacks = self._outcomes[index].status in ("unsupported", "refused")
            if lacks and kept is not None and self._outcomes[kept].status == "ok":
                note = _reason(self._outcomes[index])
                found.append(self._event("refuses", (index, kept), (True, False), note))
        return found

    # exceptions

    def _exceptions(self, bound: Sequence[int]) -> list[Mismatch]:
        raised = [i for i in bound if self._outcomes[i].status == "exception"]
        if not raised:
            return []
        found = self._types(raised)
        error_input = self._is_illegal
        asked = list(bound)
        if any(self._outcomes[i].phase == "backward" for i in raised):
            # Who has no gradient at all says nothing of an exception in backward.
            asked = [i for i in asked if not without_gradients(self._outcomes[i])]
        whole = error_input or any(self._parties[i].compiles for i in asked)
        stops = [self._stop(i, whole) for i in asked]
        if len(set(stops)) == 1:
            if len(stops) > 1:
                self._counted["exceptions"] = 1
            return found
        note = min(exception_signature(self._outcomes[i].error) for i in raised)
        kind: Kind = "accepts" if error_input else "refuses"
        return [self._event(kind, asked, stops, note), *found]

    def _stop(self, index: int, whole: bool) -> tuple[Any, ...]:
        """Where a target stopped: () for a result. For a program that is looked at as a whole any exception does."""
        outcome = self._outcomes[index]
        if outcome.status == "ok" or without_gradients(outcome):
            return ()
        return ("raised",) if whole else (outcome.phase, outcome.call)

    def _types(self, raised: list[int]) -> list[Mismatch]:
        """Other exception types within one framework, where the targets stopped at the same place."""
        found: list[Mismatch] = []
        for framework in sorted({self._parties[i].framework for i in raised}):
            same = [i for i in raised if self._parties[i].framework == framework]
            whole = any(self._parties[i].compiles for i in same)
            stops = {self._stop(i, whole) for i in same}
            errors = [self._outcomes[i].error for i in same]
            types = [error.type if error else "" for error in errors]
            if len(set(types)) > 1 and len(stops) == 1:
                note = "exception type: " + " / ".join(sorted(set(types)))
                found.append(self._event("refuses", same, types, note))
        return found

    def _event(
        self, kind: Kind, targets: Sequence[int], keys: Sequence[Any], note: str
    ) -> Mismatch:
        """A mismatch without a tensor: an exception, a death. ``keys`` say who agrees with whom."""
        targets = list(targets)
        sides = partition_by(list(keys))
        return Mismatch(
            program=self._digest,
            kind=kind,
            role="",
            name="",
            path=(),
            sides=tuple(
                tuple(self._parties[targets[member]].label for member in side) for side in sides
            ),
            observations=tuple(_observation(self._parties[i], self._outcomes[i]) for i in targets),
            note=note,
        )

    # tensors and values

    def _tensors(self, bound: Sequence[int]) -> list[Mismatch]:
        found: list[Mismatch] = []
        for key in sorted({key for i in bound for key in self._outcomes[i].by_key}, key=_order):
            subjects = [s for i in bound if (s := self._subject(key, i)) is not None]
            if len(subjects) < 2:
                continue
            field = ROLE_FIELD[key[0]]
            sizes = [s.tensor.array.size for s in subjects if s.tensor is not None]
            self._counted[field] = self._counted.get(field, 0) + 1
            self._counted["elements"] = self._counted.get("elements", 0) + max(sizes)
            mismatch = self._rules.compare(key, subjects)
            if mismatch is not None:
                found.append(mismatch)
        return found

    def _subject(self, key: Key, index: int) -> Subject | None:
        """What a target has at a tensor's place, or None where it did not get that far."""
        outcome, party = self._outcomes[index], self._parties[index]
        tensor = outcome.by_key.get(key)  # type: ignore[arg-type]
        role, name, path = key
        if tensor is not None:
            return Subject(party, tensor, unwritten=self._is_unwritten(outcome, tensor))
        if role == "gradient" and not (outcome.status == "ok" and outcome.phase == "backward"):
            return None
        if outcome.status != "ok" and not without_gradients(outcome):
            return None
        if role == "intermediate" and any(other.compiles for other in self._parties):
            return None
        if role == "intermediate" and not _names(outcome, name):
            return None  # the result is a tensor that has a name already: what it holds is compared under that
        if role == "gradient":
            return Subject(party, None, "no gradient")
        if self._conventions.lacks(party.framework, role, name):
            return None
        if role in ("side-effect", "parameter", "buffer"):
            return Subject(party, self._unchanged(key), "unchanged")
        if any((r, n, p) == (role, name, path) for r, n, p, _ in outcome.values):
            return Subject(party, None, "a value that is no tensor")
        return Subject(party, None, "nothing")

    def _is_unwritten(self, outcome: Outcome, tensor: Tensor) -> bool:
        """Whether it was made larger (as ``out=``) by a call that then raised: nobody wrote what it holds."""
        if outcome.status != "exception" or tensor.role != "side-effect":
            return False
        began = self._initial.array(tensor.name)
        return began is None or began.shape != tensor.array.shape

    def _unchanged(self, key: Key) -> Tensor | None:
        role, name, path = key
        array = self._initial.array(name)
        if array is None or path:
            return None
        return Tensor(role, name, path, self._initial.dtype(name), array)  # type: ignore[arg-type]

    def _values(self, bound: Sequence[int]) -> list[Mismatch]:
        finished = [i for i in bound if self._outcomes[i].status != "exception"]
        tables = {i: {(r, n, p): v for r, n, p, v in self._outcomes[i].values} for i in finished}
        found: list[Mismatch] = []
        for key in sorted({key for table in tables.values() for key in table}, key=_order):
            # A tensor at this place on another target was reported with the tensors.
            if any(key in self._outcomes[i].by_key for i in finished):
                continue
            having = [(self._parties[i], tables[i].get(key, "nothing")) for i in finished]
            if len(having) < 2:
                continue
            self._counted["values"] = self._counted.get("values", 0) + 1
            mismatch = self._rules.compare_values(key, having)
            if mismatch is not None:
                found.append(mismatch)
        return found


def without_gradients(outcome: Outcome) -> bool:
    """Whether the forward part is whole and only gradients are unsupported: all but them is compared."""
    return outcome.status == "unsupported" and outcome.phase == "backward"


def _order(key: Key) -> tuple[int, str, tuple[int, ...]]:
    """By role, then by name with its numbers counted as numbers (r2 before r10), then by path."""
    role, name, path = key
    return (
        _ROLE_ORDER[role],
        "".join(part.zfill(8) if part.isdigit() else part for part in _runs(name)),
        path,
    )


def _runs(name: str) -> list[str]:
    runs: list[str] = []
    for character in name:
        if runs and runs[-1][-1].isdigit() == character.isdigit():
            runs[-1] += character
        else:
            runs.append(character)
    return runs


def _status(outcome: Outcome) -> TargetStatus:
    if outcome.death is not None:
        return TargetStatus(outcome.status, death_text(outcome.death))
    if without_gradients(outcome):
        return TargetStatus("ok", f"gradients unsupported: {_reason(outcome)}")
    return TargetStatus(outcome.status, _reason(outcome) if outcome.error else "")


def _reason(outcome: Outcome) -> str:
    return first_line(outcome.error.message or outcome.error.type) if outcome.error else ""


def _observation(party: Party, outcome: Outcome) -> Observation:
    confirmed = outcome.death is None or outcome.death.confirmed
    return Observation(party.label, happened=_happened(outcome), confirmed=confirmed)


def _happened(outcome: Outcome) -> str:
    if outcome.death is not None:
        return death_text(outcome.death)
    if outcome.status == "exception":
        return error_text(outcome)
    if outcome.status == "ok":
        return "gave a result"
    what = "gradients unsupported" if without_gradients(outcome) else outcome.status
    return f"{what}: {_reason(outcome)}" if outcome.error else what


def _names(outcome: Outcome, name: str) -> bool:
    """Whether an outcome has anything under a result's name, at whatever path."""
    tensors = any(tensor.name == name for tensor in outcome.tensors)
    return tensors or any(other == name for _, other, _, _ in outcome.values)
