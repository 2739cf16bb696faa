"""Findings against a reference alone are none: whoever reads a report has no use for them.

NumPy is asked as the reference that everybody knows, by calls that our mapping composes of several of its functions, so
that what is wrong there is as a rule the composition. Such findings are counted, not listed. A crash stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from bot.oracle.finding import Finding
from bot.oracle.repeat import DEATHS
from bot.oracle.roles import Player

REFERENCES: Final = frozenset(["numpy"])


def split(
    findings: Iterable[Finding], cast: Mapping[str, Player]
) -> tuple[list[Finding], list[Finding]]:
    """The findings that concern a framework under test, and those against references alone."""
    listed: list[Finding] = []
    left_out: list[Finding] = []
    for finding in findings:
        against = {cast[label].framework for label in finding.blamed}
        alone = bool(against) and against <= REFERENCES and finding.kind not in DEATHS
        (left_out if alone else listed).append(finding)
    return listed, left_out
