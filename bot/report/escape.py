"""Text from workers, diffs and programs, made harmless where it is shown.

Markdown on GitHub turns text into mentions, links, references, HTML and table cells; a log line that begins with
``::`` is a command to the runner (also ``##[`` anywhere in it); control and bidirectional characters hide what is
there. Every text from outside passes through one of these functions, whichever fits its place.
"""

from __future__ import annotations

import re
import unicodedata

_BREAK = (
    "\u200b"  # zero-width space: shown text stays the same, and GitHub's matchers no longer match
)
_TABLE_BAR = "\u2502"  # a bar that does not end a table's cell, not even inside a code span
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_MARKDOWN = re.compile(r"([\\`*_\[\]!|~^])")
_BLOCK_START = re.compile(
    r"^(\d*)([-+#=.):])"
)  # a list, heading or underline where a line begins; a quote's mark becomes an entity
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
# GitHub looks for mathematics when Markdown has taken the backslash from ``\$`` already. The span is its docs' own way.
_PROSE = _HTML | {"$": "<span>$</span>"}
_ADDRESS = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:[/?#][!-~]*)?")
_IN_ADDRESS = {character: f"%{ord(character):02X}" for character in "()<>[]\\\"'`*|^{}"}
_AUTOLINK = re.compile(
    r"(?i)(?<=@)(?=\S)|(?<=#)(?=\w)|(?<=gh-)(?=\d)|(?<=www)(?=\.)|(?<=ghsa)(?=-)|(?<=cve)(?=-\d)|(?<=:)(?=//|[\w+-]+:)"
)


def visible(text: str, limit: int = 2_000) -> str:
    r"""One line without control, format and bidirectional characters: each shown as ``\n``, ``\x1b``, ``\u202e``.

    Text that would show as more than ``limit`` characters is cut, marked by an ellipsis.
    """
    if len(text) <= limit and text.isprintable():
        return text
    shown = [_shown(character) for character in text[: limit + 1]]
    if sum(map(len, shown)) <= limit:
        return "".join(shown)
    room = limit - 1
    for index, piece in enumerate(shown):
        room -= len(piece)
        if room < 0:
            return "".join(shown[:index]) + "…"
    return "".join(shown)


def plain(text: str, limit: int = 2_000) -> str:
    """Inline Markdown that renders as exactly this text, as prose: no mention, link, reference, emphasis or HTML."""
    shown = _AUTOLINK.sub(_BREAK, _no_command(visible(text, limit)))
    shown = _BLOCK_START.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", shown.strip()))
    return "".join(_PROSE.get(character, character) for character in shown)


def code(text: str, limit: int = 500) -> str:
    """An inline code span that holds this text."""
    shown = _no_command(visible(text, limit))
    if not shown.strip():
        return "–"
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    ticks = "`" * (longest + 1)
    # Markdown takes one blank off each end when both have one; a backtick must not touch the fence.
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, limit: int = 200) -> str:
    """A code span for a table's cell: a bar, which would end the cell even inside code, is shown as a box-drawing one."""
    return code(text.replace("|", _TABLE_BAR), limit)


def html_code(text: str, limit: int = 200) -> str:
    """A ``<code>`` element, for a ``<summary>`` and other places where GitHub reads HTML and no Markdown."""
    shown = _no_command(visible(text, limit))
    if not shown.strip():
        return "–"
    return f"<code>{''.join(_HTML.get(character, character) for character in shown)}</code>"


def link(markdown: str, address: str) -> str:
    """A link around Markdown that is already safe; that Markdown alone where the address is none of the web's."""
    if not _ADDRESS.fullmatch(address):
        return markdown
    return (
        f"[{markdown}]({''.join(_IN_ADDRESS.get(character, character) for character in address)})"
    )


def fence(text: str, language: str = "") -> str:
    """A fenced block that holds these lines; its fence is longer than any in the text."""
    lines = re.split(r"\r\n|[\n\r]", text.replace("\t", "    ").rstrip("\r\n"))
    lines = [visible(line, 10_000) for line in lines]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([ticks + re.sub(r"[^a-z]", "", language), *map(_no_command, lines), ticks])


def log_line(text: str, limit: int = 2_000) -> str:
    """One line for a terminal or a job's log: never a workflow command, no escape sequences."""
    return _no_command(visible(text, limit))


def comment(text: str, limit: int = 200) -> str:
    """Text for one comment or docstring line of a generated Python script: cannot end either."""
    return _no_command(visible(text, limit)).replace("\\", "/").replace('"""', "'''")


def _no_command(line: str) -> str:
    line = line.replace("##[", "#" + _BREAK + "#[")
    stripped = line.lstrip()
    if stripped.startswith("::"):
        line = line[: len(line) - len(stripped)] + ":" + _BREAK + stripped[1:]
    return line


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN_CATEGORIES:
        return character
    point = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
