"""What OpDiff answers to a command: short Markdown, everything that a person or a run said escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from bot.github.command_text import USAGE, Command
from bot.github.state import Seen
from bot.report import escape

CONFIG_PATH: Final = ".github/opdiff.yml"


def recorded(command: Command, finding: Seen | None, draft_url: str = "") -> str:
    """A command was followed. ``finding`` is what its fingerprint names."""
    parts = [_done(command, finding, draft_url)]
    if command.verb == "ignore" and finding is not None:
        parts.append(ignore_suggestion(finding, command.reason))
    return "\n\n".join(parts)


def head_moved(commented_on: str, head: str) -> str:
    """A newer head was pushed after the comment; ``commented_on`` may be empty where nobody knows it."""
    meant = f", not {escape.code(commented_on[:10])}" if commented_on else ""
    return (
        f"The head is now {escape.code(head[:10])}{meant}: look at the newer push, "
        "and say it again if it still holds."
    )


def no_such_finding(fingerprint: str, known: Sequence[Seen]) -> str:
    """No finding of the last report begins with this fingerprint."""
    if not known:
        return f"No finding begins with {escape.code(fingerprint, 64)}: the last report has none."
    some = ", ".join(escape.code(seen.fingerprint, 64) for seen in known[:5])
    more = f" and {len(known) - 5} more" if len(known) > 5 else ""
    return f"No finding of the last report begins with {escape.code(fingerprint, 64)}. There are {some}{more}."


def ambiguous(fingerprint: str, matching: Sequence[Seen]) -> str:
    """More than one finding begins with this fingerprint."""
    some = ", ".join(escape.code(seen.fingerprint, 64) for seen in matching[:5])
    return f"{len(matching)} findings begin with {escape.code(fingerprint, 64)}: {some}. Write more of it."


def unknown_op(name: str, near: Sequence[str]) -> str:
    """An op that is to be run is known to nobody, or by several names."""
    meant = f" Is it {' or '.join(escape.code(one, 200) for one in near)}?" if near else ""
    return f"No single op is known by the name {escape.code(name, 200)}.{meant}"


def nothing_to_rerun() -> str:
    """There is no run of the check for this head."""
    return "There is no run of the check for this head that could run again."


def ignore_suggestion(finding: Seen, reason: str) -> str:
    """The lines for the configuration file, which hold for every pull request from then on."""
    quoted = json.dumps(
        " ".join(reason.split()), ensure_ascii=False
    )  # JSON's strings are YAML's too
    lines = "\n".join(
        [
            "version: 1",
            "ignore:",
            f"  - fingerprint: {json.dumps(finding.fingerprint)}",
            f"    reason: {quoted}",
        ]
    )
    return (
        f"To ignore it in every pull request, merge this into `{CONFIG_PATH}` on the base branch:\n\n"
        f"{escape.fence(lines, 'yaml')}"
    )


def _done(command: Command, finding: Seen | None, draft_url: str) -> str:
    named = _named(command, finding)
    if command.verb == "run":
        ops = ", ".join(escape.code(op, 120) for op in command.ops)
        budget = "" if command.budget is None else f", within {command.budget:g} s"
        return f"Recorded: test {ops} too{budget}."
    if command.verb == "retry":
        return "Recorded: run the check again."
    if command.verb == "draft":
        if not draft_url:
            return f"There is no draft for {named}: only findings blamed on upstream have one."
        draft = escape.link("a draft of an issue upstream", draft_url)
        return f"Here is {draft} for {named}. Read it, and submit it if you agree."
    done = {
        "ignore": "is noted; what is ignored is for the configuration file to say",
        "accept": "is accepted as a change that is meant",
        "wrong": "has a verdict that was said to be wrong; that is kept and counted",
    }[command.verb]
    return f"Recorded: {named} {done}."


def _named(command: Command, finding: Seen | None) -> str:
    if finding is None:
        return escape.code(command.fingerprint or USAGE[command.verb], 64)
    return f"{escape.code(finding.fingerprint, 64)} ({escape.code(finding.op, 80)}, {finding.kind})"
