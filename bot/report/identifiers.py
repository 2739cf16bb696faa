"""The variables of a script: one for each name of a program, none of them a name that the script needs itself."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping

RESERVED: frozenset[str] = frozenset(
    "np sys re either base64 zlib subprocess run main stored check parts median differing traceback signal to_numpy nan inf EXPECTED DEVICE seed time os math torch "
    "oneflow numpy scipy jax paddle mindspore mint ops megengine forward pullback dict float complex slice Ellipsis "
    "abs all any bool enumerate int isinstance len list max min range reversed round set sorted str sum tuple zip".split()
)


class Identifiers:
    """Names to variables, the same one each time."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._taken: set[str] = set(RESERVED)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def of(self, name: str) -> str:
        """The variable that stands for a program's name."""
        if name not in self._known:
            wanted = re.sub(r"[^A-Za-z0-9_]", "_", name)[:40]
            if not wanted.isidentifier() or keyword.iskeyword(wanted):
                wanted = f"t_{wanted}"
            self._known[name] = self.fresh(wanted)
        return self._known[name]

    def keep(self, name: str, wanted: str) -> str:
        """A new variable, which from now on stands for this name."""
        self._known[name] = self.fresh(wanted)
        return self._known[name]

    def fresh(self, wanted: str) -> str:
        """A variable that nothing stands for yet, this one or one like it."""
        unique, number = wanted, 2
        while unique in self._taken:
            unique, number = f"{wanted}_{number}", number + 1
        self._taken.add(unique)
        return unique

    def reserve(self, name: str) -> None:
        """Let no variable have this name."""
        self._taken.add(name)

    def taken(self, name: str) -> bool:
        """Whether something in the script has this name."""
        return name in self._taken


def steps(path: Collection[int]) -> str:
    """The subscripts that lead to a member of a result."""
    return "".join(f"[{int(index)}]" for index in path)


Known = Mapping[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...]]]
"""A result's name and a member's path -> the member's dtype and shape."""
