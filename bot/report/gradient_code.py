"""Gradients as Python source: on the framework's tape, or of the calls as a function of the leaves."""

from __future__ import annotations

from collections.abc import Sequence

from bot.programs.program import Program
from bot.report.dialect import Dialect, Gradients
from bot.report.identifiers import Identifiers
from bot.report.value_code import ReproError


class GradientCode:
    """Writes what turns the statements of a program into ones that give gradients."""

    def __init__(self, program: Program, dialect: Dialect, identifiers: Identifiers) -> None:
        self._identifiers = identifiers
        self._dialect = dialect
        self._wanted = bool(program.backward)
        self._leaves = [spec.name for spec in program.inputs() if spec.requires_grad]

    @property
    def _way(self) -> Gradients:
        if self._dialect.gradients is None:
            raise ReproError(f"{self._dialect.module} has no gradients")
        return self._dialect.gradients

    def leaf(self, name: str) -> list[str]:
        """Statements that make a tensor a leaf; none where the framework has no such thing."""
        way = self._dialect.gradients
        if way is None or not way.leaf:
            return []
        return [way.leaf.format(x=self._identifiers.of(name))]

    def recorded(
        self, calls: list[str], results: Sequence[str], outputs: Sequence[str]
    ) -> list[str]:
        """The calls in such a way that gradients can be asked for afterwards.

        ``results``: the variables that the calls make; ``outputs``: expressions of what gradients are given for.
        """
        if not self._wanted:
            return calls
        way, leaves = self._way, ", ".join(map(self._identifiers.of, self._leaves))
        if way.function:
            body = [f"    {line}" for line in calls]
            end = f"    return ({_items(outputs)}), ({_items(results)})"
            call = way.function.format(leaves=leaves, results=_items(results))
            return [f"def forward({leaves}):", *body, end, "", call]
        return [*(line.format(leaves=leaves) for line in way.record), *calls]

    def backward(self, outputs: Sequence[str], gradients: Sequence[str]) -> str:
        """The statement that runs backward from all outputs at once."""
        made = [f"{self._gradient_variable(name)}" for name in self._leaves]
        return self._way.backward.format(
            outputs=", ".join(outputs),
            gradients=_items(gradients) if self._way.function else ", ".join(gradients),
            made=_items(made),
            leaves=", ".join(map(self._identifiers.of, self._leaves)),
        )

    def gradient(self, name: str) -> str:
        """An expression for a leaf's gradient."""
        if self._way.function:
            if name not in self._leaves:
                raise ReproError(f"no gradient is asked for {name[:80]!r}")
            return self._gradient_variable(name)
        return self._way.gradient.format(x=self._identifiers.of(name))

    def _gradient_variable(self, name: str) -> str:
        return self._identifiers.of(f"gradient {name}")


def _items(texts: Sequence[str]) -> str:
    """What stands in the brackets of a tuple."""
    return ", ".join(texts) + ("," if len(texts) == 1 else "")
