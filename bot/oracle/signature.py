"""What tells one exception or crash from another: the text without numbers, paths, addresses and times."""

from __future__ import annotations

import re

from bot.targets.outcome import Death, Error

MAX_SIGNATURE = 160

_REPLACED: tuple[tuple[re.Pattern[str], str], ...] = (
    # glog's head: severity and date, time, process, file:line]
    (re.compile(r"^[FEWI]\d{4,8} [\d:.]+\s+\d+ (\S+?):\d+\]"), r"\1:"),
    (re.compile(r"0x[0-9a-fA-F]+"), "#"),
    (re.compile(r"(?:/[\w.+-]+)+/"), ""),  # folders: only a file's own name stays
    (
        re.compile(
            r"\bk?(?:b?float|double|complex|u?int|half|char|long|bool)(?:\d+(?:_t)?)?\b", re.I
        ),
        "T",
    ),
    (re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"), "#"),
    (re.compile(r"#(?:\s*[,x*]\s*#)+,?"), "#"),  # shapes of any rank
    (re.compile(r"[(\[]\s*+#?\s*+,?\s*+[)\]]"), "[#]"),
    (re.compile(r"\s+"), " "),
)
_TELLING = re.compile(
    r"^F\d{4,8} |check failed|terminate called|what\(\):|assert|fatal|error|exception", re.I
)


def normalised(text: str) -> str:
    """One line of text without what varies from program to program: numbers, shapes, dtypes, paths, addresses."""
    text = text.strip()
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text.strip()[:MAX_SIGNATURE]


def first_line(text: str) -> str:
    """The first line of a text that is not blank, at most 300 characters."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


def exception_signature(error: Error | None) -> str:
    """An exception's type and normalised message."""
    if error is None:
        return ""
    return f"{error.type}: {normalised(first_line(error.message))}"


def death_signature(death: Death | None) -> str:
    """A death's signal and the line of its last words that tells the reason, normalised.

    A fatal log line, a failed check or an uncaught exception's text comes before whatever was printed last, for a stack
    trace usually follows.
    """
    if death is None:
        return ""
    words = normalised(telling_line(death.last_words))
    return f"{death.signal}: {words}" if words else death.signal


def telling_line(last_words: str) -> str:
    """The line of a dead worker's last words that says why: the first telling one, else the last one."""
    lines = [line.strip() for line in last_words.splitlines() if line.strip()]
    return next((line for line in lines if _TELLING.search(line)), lines[-1] if lines else "")
