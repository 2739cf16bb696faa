"""Fingerprints: the same cause has the same one on every push, and no other cause does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from bot.oracle.cause import CauseKey
from bot.oracle.roles import Player
from bot.programs.program import canonical_json


def fingerprint(
    key: CauseKey, players: Mapping[str, Player], argument_class: dict[str, Any]
) -> str:
    """16 hex digits over op group, kind, place, signature, sides without versions, and the class of arguments."""
    sides = sorted(sorted(players[label].without_version for label in side) for side in key.sides)
    fields = [key.op, key.kind, key.place, key.signature, sides, argument_class]
    return hashlib.blake2b(canonical_json(fields), digest_size=8).hexdigest()


def numbered(own: str, number: int) -> str:
    """The fingerprint of the number-th cause (from 2) that would have the same one."""
    return hashlib.blake2b(f"{own} {number}".encode(), digest_size=8).hexdigest()
