"""Notes for the reader of the changes: many of one kind become one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_NAMED: Final = 20  # names in one note; the others are counted

_NAME: Final = re.compile(r"(?<!\S)[^\s\d_./\\]*+[\d_./\\]\S*+")
"""What tells notes of one kind apart: paths, dotted and snake-case names, numbers."""


def merged(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes, each once; those that differ in names and numbers alone as one, where the first of them stands."""
    kinds: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        kinds.setdefault(_NAME.sub("#", note), []).append(note)
    return tuple(_one(each) for each in kinds.values())


def _one(notes: list[str]) -> str:
    if len(notes) == 1:
        return notes[0]
    subjects = list(dict.fromkeys(_subject(note) for note in notes))
    first, rest = subjects[0], {note.removeprefix(f"{_subject(note)}: ") for note in notes}
    if len(rest) == 1 and notes[0].startswith(f"{first}: "):
        return f"{_listed(subjects)}: {rest.pop()}"
    return f"{notes[0]}; likewise {_listed(subjects[1:] or [f'{len(notes) - 1} more'])}"


def _subject(note: str) -> str:
    """The first name of a note."""
    match = _NAME.search(note)
    return match[0].rstrip(":,;") if match else note


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
