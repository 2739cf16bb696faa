from __future__ import annotations

import ast
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.report import escape

HOSTILE = [
    "@torch/maintainers",
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example)",
    "![x](https://evil.example/p.png)",
    "https://evil.example www.evil.example",
    "#123 GH-12 fixes torch/torch#5",
    "::error file=x::y",
    "##[error]boom",
    "```\n# heading\n```",
    "``` ` `` `",
    "a|b\\|c\\",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b[0m\x07",
    "line\r\nbreak\u2028sep\u0085",
    ":smile: :+1:",
    "*a* _b_ ~~c~~ $x$",
    "&lt;b&gt; &#64;user",
    "- item\n1. item",
    "</details><script>",
    '"""\nimport os',
    "\\",
    "",
    "  ",
]
hostile = st.sampled_from(HOSTILE) | st.text() | st.lists(st.sampled_from(HOSTILE)).map("".join)
commonmark = MarkdownIt("gfm-like", {"linkify": False})


def hidden(text: str) -> list[str]:
    """Characters that show nothing or turn text around, save the zero-width space that we put in."""
    return [
        character
        for character in text
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and character != "\u200b"
    ]


@given(hostile)
def test_visible_text_is_one_line_without_hidden_characters(text: str) -> None:
    shown = escape.visible(text)
    assert not hidden(shown)
    assert "\u200b" not in shown
    assert len(shown.splitlines()) <= 1


def test_hidden_characters_are_named() -> None:
    assert escape.visible("a\u202eb\x1b[0m\n") == "a\\u202eb\\x1b[0m\\n"
    assert escape.visible("é 漢 🙂") == "é 漢 🙂"


def test_long_text_is_cut_visibly() -> None:
    assert escape.visible("x" * 10, limit=5) == "xxxx…"


@given(hostile)
@example("`")
@example(" ` ")
def test_code_is_one_span_that_holds_the_text(text: str) -> None:
    inline = commonmark.parseInline(f"before {escape.code(text)} after")[0].children
    assert inline is not None
    kinds = [token.type for token in inline]
    if escape.visible(text, 500).strip():
        assert kinds == ["text", "code_inline", "text"]
        assert inline[1].content == escape.visible(text, 500)
    else:
        assert kinds == ["text"]


@given(hostile, hostile)
def test_cell_never_ends_its_cell(first: str, second: str) -> None:
    table = f"| a | b |\n| --- | --- |\n| {escape.cell(first)} | {escape.cell(second)} |\n"
    tokens = commonmark.parse(table)
    assert sum(token.type == "td_open" for token in tokens) == 2
    assert tokens[-1].type == "table_close"
    cells = [t for t in tokens if t.type == "inline"][2:]
    for token in cells:
        assert {child.type for child in token.children or []} <= {"code_inline", "text"}


@given(hostile)
def test_plain_is_text_and_nothing_else(text: str) -> None:
    tokens = commonmark.parse(f"- {escape.plain(text)}")
    allowed = {"bullet_list", "list_item", "paragraph"}
    assert {
        token.type.removesuffix("_open").removesuffix("_close") for token in tokens
    } <= allowed | {"inline"}
    shown = [child for token in tokens for child in token.children or []]
    assert {child.type for child in shown} <= {"text", "text_special"}
    rendered = "".join(child.content for child in shown)
    expected = " ".join(escape.visible(text).split())
    assert " ".join(rendered.replace("\u200b", "").split()) == expected.replace("\u200b", "")


@given(hostile)
def test_plain_mentions_links_and_references_nobody(text: str) -> None:
    rendered = commonmark.renderInline(escape.plain(text))
    assert not re.search(r"@\w", rendered)
    assert not re.search(r"#\d", rendered.replace("&#", ""))
    assert "://" not in rendered
    assert not re.search(r"(?i)www\.", rendered)
    assert not re.search(r"(?i)gh-\d", rendered)


@given(hostile)
def test_fence_holds_every_line(text: str) -> None:
    block = escape.fence(text, "python")
    tokens = commonmark.parse(f"before\n\n{block}\n\nafter")
    assert [token.type for token in tokens if token.level == 0 and token.nesting >= 0] == [
        "paragraph_open",
        "fence",
        "paragraph_open",
    ]
    assert not [line for line in block.split("\n") if hidden(line)]


@given(hostile)
def test_no_line_is_a_workflow_command(text: str) -> None:
    for line in [escape.log_line(text), *escape.fence(text).split("\n"), escape.comment(text)]:
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert len(line.splitlines()) <= 1


@given(hostile)
def test_comment_ends_neither_docstring_nor_comment(text: str) -> None:
    safe = escape.comment(text)
    parsed = ast.parse(f'"""{safe} """\n# {safe}\nx = 1\n')
    assert len(parsed.body) == 2


@pytest.mark.parametrize("language", ["python", "sh", "x\n```"])
def test_fence_language_is_a_word(language: str) -> None:
    assert re.fullmatch(r"```[a-z]*", escape.fence("x", language).split("\n")[0])
