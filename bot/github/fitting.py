"""Fits Markdown into a limit: whole pieces give way to one line that counts them, nothing is ever cut.

A text is a row of sections in the order in which a reader sees them. Sections are filled in the order of their
``rank``, pieces in their own order, until one does not fit; a piece is a whole table row, list entry or fold, so that
no fence and no ``<details>`` can stay open. Everything is measured in UTF-8 bytes, the strictest way of counting:
GitHub speaks of characters, and does not say of which kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

LeftOut = Callable[[int], str]
"""How many pieces were left out -> one line that says so."""


@dataclass(frozen=True)
class Section:
    """Pieces of Markdown between a head and a tail, all of them left out when there is no piece.

    ``fuller`` holds, per piece, a longer form that takes the piece's place where there is room left in the end.
    ``left_out`` is asked for a line when pieces did not fit; it comes after ``tail``.
    """

    rank: int
    pieces: Sequence[str]
    head: str = ""
    tail: str = ""
    between: str = "\n"
    fuller: Sequence[str | None] = field(default=())
    left_out: LeftOut | None = None
    unwritten: int = 0
    """Pieces beyond ``pieces``, which are left out whatever room there is."""


@dataclass
class _Filled:
    section: Section
    pieces: list[str]

    def text(self) -> str:
        section = self.section
        left_out = len(section.pieces) - len(self.pieces) + section.unwritten
        shown = ""
        if self.pieces:
            shown = section.head + section.between.join(self.pieces) + section.tail
        if left_out and section.left_out is not None:
            shown = "\n\n".join(filter(None, [shown, section.left_out(left_out)]))
        return shown


def size(text: str) -> int:
    """UTF-8 bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def fit(sections: Iterable[Section], limit: int) -> str:
    """The sections' text, one blank line between them, in at most ``limit`` bytes.

    Raises ValueError when not even the lines that say what was left out fit: the caller's limit is wrong.
    """
    filled = [_Filled(section, []) for section in sections]
    room = limit - sum(_worst_notice(one.section) + 2 for one in filled)
    if room < 0:
        raise ValueError(f"{limit} bytes do not even hold what was left out")
    for one in sorted(filled, key=lambda one: one.section.rank):
        room = _fill(one, room)
    for one in sorted(filled, key=lambda one: one.section.rank):
        room = _enlarge(one, room)
    return "\n\n".join(filter(None, (one.text() for one in filled)))


def _worst_notice(section: Section) -> int:
    most = len(section.pieces) + section.unwritten
    if section.left_out is None or not most:
        return 0
    return 2 + size(section.left_out(most))


def _fill(one: _Filled, room: int) -> int:
    section = one.section
    for piece in section.pieces:
        first = not one.pieces
        frame = size(section.head) + size(section.tail) if first else size(section.between)
        if size(piece) + frame > room:
            break
        room -= size(piece) + frame
        one.pieces.append(piece)
    return room


def _enlarge(one: _Filled, room: int) -> int:
    """The longer forms of the pieces that are in, the first ones first; the first that does not fit ends it."""
    for index, fuller in enumerate(one.section.fuller[: len(one.pieces)]):
        if fuller is None:
            continue
        more = size(fuller) - size(one.pieces[index])
        if more > room:
            break
        room -= more
        one.pieces[index] = fuller
    return room
