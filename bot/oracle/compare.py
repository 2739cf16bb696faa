"""Do the outcomes of one program differ? The exact rules, with two fast paths in front of them.

What is compared, in this order:

- **deaths**: a crash, hang or exceeded memory is a mismatch of its own, between the sides that died alike and the rest.
  Only where *every* target hangs or exceeds its memory is the program too big, and counted as not compared.
- **unsupported and refused** outcomes are coverage: counted with their reason, never a mismatch, save where a candidate
  lacks what its baseline of the same release has, which is ``refuses``: something was taken away. What lacks only
  gradients is compared in everything else.
- **exception against result**: ``refuses`` (``accepts`` when the program is an error input, which PyTorch documents to
  raise), with the place where each side stopped. Two targets that raise agree when they stopped in the same phase
  at the same call; for an error input anywhere. Exception *types* are compared within one framework only.
- **every tensor** by role, name and path: each member of a nested result, intermediates, side effects, gradients,
  parameters and buffers, by the rules of :mod:`bot.oracle.pair`. A gradient that is absent agrees with one that is all
  zeros. A side effect (or parameter or buffer) seen on one side only is compared with the values the program began
  with. What one target did not reach because it raised is not compared.
- **compiled programs**: where a target compiles, any exception agrees with any other, wherever they stopped, for what it
  runs is one function; and an intermediate is compared only between those that show it.
- **values** that are no tensors: exactly, floats within the tolerance of the program's floating inputs.
- **result structure**: a tensor where another has a value or nothing.

Random programs are compared by value only between targets of the same build (same framework, same version), which draw
the same numbers from the same seed; across others by contract (:func:`bot.oracle.pair.contract_kind`). Uninitialised
memory is compared by shape and dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.oracle.conventions import Conventions, load_conventions
from bot.oracle.counts import Counts, TargetStatus
from bot.oracle.exact import ExactComparison, Party
from bot.oracle.fast import Layouts, within_base_tolerance, without_id
from bot.oracle.finding import Mismatch
from bot.programs.source import SourcedProgram
from bot.targets.outcome import RawOutcome
from bot.worker.protocol import ProtocolError


@dataclass(frozen=True)
class Comparison:
    """What came of comparing one program's outcomes; ``statuses`` in the order of the targets."""

    mismatches: tuple[Mismatch, ...]
    counts: Counts
    statuses: tuple[TargetStatus, ...]


class Comparator:
    """Compares outcomes of one fixed list of targets; keeps what it has learned of their headers.

    ``labels`` must be unique (:func:`bot.oracle.sides.unique_labels`). ``builds`` says which targets run the same build of
    a framework on the same device (equal strings); by default those whose labels are equal up to ``#2``. ``held_to`` says
    for each target whose support it must keep, by label, "" for nobody's (:func:`bot.oracle.roles.held_to`). ``compiles``
    says which targets run a program's calls as one compiled function.
    Raises ValueError when the lists don't fit each other.
    """

    def __init__(
        self,
        labels: Sequence[str],
        frameworks: Sequence[str],
        builds: Sequence[str] | None = None,
        conventions: Conventions | None = None,
        held_to: Sequence[str] | None = None,
        compiles: Sequence[bool] | None = None,
    ) -> None:
        builds = [label.partition("#")[0] for label in labels] if builds is None else builds
        if len(set(labels)) != len(labels):
            raise ValueError("two targets have the same label; unique_labels tells them apart")
        held_to = [""] * len(labels) if held_to is None else held_to
        compiles = [False] * len(labels) if compiles is None else compiles
        lengths = set(map(len, (labels, frameworks, builds, held_to, compiles)))
        if len(lengths) != 1 or not labels:
            raise ValueError("labels, frameworks and builds must name the same targets")
        self.parties = tuple(map(Party, labels, frameworks, builds, held_to, compiles))
        self.conventions = load_conventions() if conventions is None else conventions
        self._layouts = Layouts()

    def compare(self, program: SourcedProgram, outcomes: Sequence[RawOutcome]) -> Comparison:
        """Compare what every target made of one program, in the order of the targets."""
        fast = self._fast(program.op, outcomes)
        if fast is not None:
            return fast
        exact = ExactComparison(program, outcomes, self.parties, self.conventions)
        return Comparison(exact.mismatches, exact.counts, exact.statuses)

    def _fast(self, op: str, outcomes: Sequence[RawOutcome]) -> Comparison | None:
        """The comparison of outcomes that agree, or None when the exact rules must look."""
        header = outcomes[0].header
        if not header:
            return None
        anonymous = without_id(header)
        payload = outcomes[0].payload
        same_bytes = True
        for other in outcomes[1:]:
            if other.header != header and without_id(other.header) != anonymous:
                return None
            same_bytes = same_bytes and other.payload == payload
        try:
            layout = self._layouts.of(anonymous, header)
        except ProtocolError:
            return None
        if layout.nbytes != len(payload) or not layout.comparable or len(outcomes) < 2:
            return None
        if not same_bytes and (
            op in self.conventions.zero_sign_ops | self.conventions.exact_ops
            or not within_base_tolerance(layout, outcomes)
        ):
            return None
        return Comparison((), layout.counts, (layout.status,) * len(outcomes))


def compare(
    program: SourcedProgram,
    outcomes: Sequence[RawOutcome],
    labels: Sequence[str],
    frameworks: Sequence[str],
    builds: Sequence[str] | None = None,
    conventions: Conventions | None = None,
) -> Comparison:
    """Compare one program's outcomes; a run of many keeps one :class:`Comparator` instead."""
    return Comparator(labels, frameworks, builds, conventions).compare(program, outcomes)
