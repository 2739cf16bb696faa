"""``/opdiff ...`` in a pull request's comment: which command a comment holds, if it holds one.

The comment's first line alone counts. A line in a code block or a quote is no command: a first line that opens a fence,
is indented by four blanks or begins with ``>`` is something else, and so is whatever follows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, get_args

from bot.github.state import MAX_REASON, OP_NAME, Verb
from bot.oracle.finding import is_fingerprint
from bot.report import escape

MAX_LINE: Final = 2_000
MAX_OPS: Final = 50
MAX_BUDGET_SECONDS: Final = 86_400.0

USAGE: Final[dict[Verb, str]] = {
    "run": "/opdiff run OP... [--budget SECONDS]",
    "retry": "/opdiff retry",
    "ignore": "/opdiff ignore FINGERPRINT reason...",
    "accept": "/opdiff accept FINGERPRINT reason...",
    "wrong": "/opdiff wrong FINGERPRINT reason...",
    "draft": "/opdiff draft FINGERPRINT",
}
MEANINGS: Final[dict[Verb, str]] = {
    "run": "test these ops too",
    "retry": "run the check again",
    "ignore": "get the lines for the configuration file that ignore this finding",
    "accept": "this change is meant",
    "wrong": "the verdict is wrong: it is kept and counted",
    "draft": "draft an issue for upstream",
}
HOW_TO: Final = "\n".join(
    [
        "<details><summary>Commands</summary>",
        "",
        "In a comment's first line, by someone with write access; a fingerprint's first 8 digits are enough.",
        "",
        "| command | what it does |",
        "| --- | --- |",
        *(f"| `{USAGE[verb]}` | {MEANINGS[verb]} |" for verb in USAGE),
        "",
        "</details>",
    ]
)

_VERBS: Final = get_args(Verb)
_COMMAND: Final = re.compile(r" {0,3}/opdiff(?:[ \t]+(.*))?", re.DOTALL)
_OP: Final = re.compile(OP_NAME)
_SECONDS: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3})?")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Command:
    """A command whose form is right; whether it may be followed is for others to say.

    ``fingerprint`` is 8 to 64 hexadecimal digits, the beginning of a finding's. ``budget`` is in seconds. ``reason``
    is one line of at most ``MAX_REASON`` characters without control and bidirectional ones.
    """

    verb: Verb
    ops: tuple[str, ...] = ()
    budget: float | None = None
    fingerprint: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class CommandError:
    """A first line that asks OpDiff for something and cannot be understood. ``message``: one line of Markdown."""

    message: str


def parse_command(body: str) -> Command | CommandError | None:
    """The command in a comment's first line; None when that line does not speak to OpDiff."""
    line = _LINE_END.split(body[: MAX_LINE + 1], maxsplit=1)[0]
    found = _COMMAND.fullmatch(line.rstrip())
    if found is None:
        return None
    if len(line) > MAX_LINE:
        return CommandError(f"The command is longer than {MAX_LINE} characters.")
    words = (found[1] or "").split()
    verb = next((verb for verb in _VERBS if words and words[0] == verb), None)
    if verb is None:
        asked = f"There is no command {escape.code(words[0], 40)}." if words else "Which command?"
        known = ", ".join(f"`{verb}`" for verb in _VERBS)
        return CommandError(f"{asked} OpDiff knows {known}.")
    return _parse(verb, words[1:])


def _parse(verb: Verb, words: Sequence[str]) -> Command | CommandError:
    if verb == "run":
        return _parse_run(words)
    if verb == "retry":
        return _wrong_use(verb, "it takes nothing more") if words else Command(verb)
    fingerprint = _bare(words[0]).lower() if words else ""
    if not is_fingerprint(fingerprint):
        return _wrong_use(
            verb, "a fingerprint is 8 to 64 hexadecimal digits, from the table of findings"
        )
    if verb == "draft":
        if len(words) > 1:
            return _wrong_use(verb, "it takes a fingerprint and nothing more")
        return Command(verb, fingerprint=fingerprint)
    reason = escape.visible(" ".join(words[1:])[:MAX_REASON], MAX_REASON)[:MAX_REASON].strip()
    if not reason:
        return _wrong_use(verb, "say why, after the fingerprint")
    return Command(verb, fingerprint=fingerprint, reason=reason)


def _parse_run(words: Sequence[str]) -> Command | CommandError:
    ops: list[str] = []
    budget: float | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            if option != "--budget":
                return _wrong_use("run", f"there is no option {escape.code(option, 40)}")
            budget = _seconds(value if equals else rest.pop(0) if rest else "")
            if budget is None:
                return _wrong_use("run", f"a budget is 1 to {MAX_BUDGET_SECONDS:.0f} seconds")
            continue
        op = _bare(word)
        if not _OP.fullmatch(op):
            return _wrong_use("run", f"{escape.code(word, 80)} is no op's name")
        ops.append(op)
    ops = list(dict.fromkeys(ops))
    if not ops:
        return _wrong_use("run", "name an op, such as `nn.functional.softplus`")
    if len(ops) > MAX_OPS:
        return _wrong_use("run", f"at most {MAX_OPS} ops at once")
    return Command("run", ops=tuple(ops), budget=budget)


def _seconds(text: str) -> float | None:
    text = text.removesuffix("s")
    if not _SECONDS.fullmatch(text):
        return None
    seconds = float(text)
    return seconds if 1 <= seconds <= MAX_BUDGET_SECONDS else None


def _bare(word: str) -> str:
    """A word without the comma behind it and the backticks around it."""
    return word.rstrip(",").strip("`").rstrip(",")


def _wrong_use(verb: Verb, why: str) -> CommandError:
    return CommandError(f"`{USAGE[verb]}`: {why}.")
