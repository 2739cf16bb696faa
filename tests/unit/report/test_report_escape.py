from __future__ import annotations

import ast
import html
import re
import unicodedata

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
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


def github_html(markdown: str) -> str:
    """What GitHub's own fork of cmark makes of it, with its automatic links."""
    return cmarkgfm.markdown_to_html_with_extensions(
        markdown,
        options=Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES,
        extensions=["table", "autolink", "strikethrough", "tasklist"],
    )


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
    assert escape.visible("x" * 5, limit=5) == "xxxxx"
    assert escape.visible("é" * 6, limit=5) == "éééé…"


def test_the_limit_is_of_what_is_shown() -> None:
    assert escape.visible("\u202e" * 10, limit=13) == "\\u202e\\u202e…"
    assert escape.visible("\u202e" * 2, limit=12) == "\\u202e\\u202e"


@given(hostile, st.integers(1, 40))
def test_nothing_is_shown_longer_than_its_limit(text: str, limit: int) -> None:
    assert len(escape.visible(text, limit)) <= limit


@given(hostile)
def test_html_code_is_one_element(text: str) -> None:
    shown = escape.html_code(text)
    if shown != "–":
        assert re.fullmatch(r"<code>[^<>]*</code>", shown)
        assert html.unescape(shown[6:-7]).replace("\u200b", "") == escape.visible(text, 200)
    assert not hidden(shown)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://host.example/a?b=c&d=%20#e", "https://host.example/a?b=c&d=%20#e"),
        ("http://localhost:8080/x_(y)", "http://localhost:8080/x_%28y%29"),
        ("https://host.example/a]<b>`'\"|", "https://host.example/a%5D%3Cb%3E%60%27%22%7C"),
    ],
)
def test_a_link_holds_its_address(address: str, shown: str) -> None:
    assert escape.link("text", address) == f"[text]({shown})"
    links = commonmark.parseInline(escape.link("text", address))[0].children or []
    assert [token.type for token in links] == ["link_open", "text", "link_close"]


@pytest.mark.parametrize(
    "address",
    ["", "javascript:alert(1)", "data:text/html,x", "//host.example", "https://", "https://a b", "https://h.example/\n"],
)  # fmt: skip
def test_what_is_no_address_is_no_link(address: str) -> None:
    assert escape.link("text", address) == "text"


@given(hostile)
@example("`")
@example(" ` ")
def test_code_is_one_span_that_holds_the_text(text: str) -> None:
    inline = commonmark.parseInline(f"before {escape.code(text)} after")[0].children
    assert inline is not None
    kinds = [token.type for token in inline]
    if escape.visible(text, 500).strip():
        assert kinds == ["text", "code_inline", "text"]
        assert inline[1].content.replace("\u200b", "") == escape.visible(text, 500)
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
@example(">")
@example("> quote")
def test_plain_is_text_and_nothing_else(text: str) -> None:
    tokens = commonmark.parse(f"- {escape.plain(text)}")
    allowed = {"bullet_list", "list_item", "paragraph"}
    assert {
        token.type.removesuffix("_open").removesuffix("_close") for token in tokens
    } <= allowed | {"inline"}
    shown = [child for token in tokens for child in token.children or []]
    assert {child.type for child in shown} <= {"text", "text_special", "html_inline"}
    assert {c.content for c in shown if c.type == "html_inline"} <= {"<span>", "</span>"}
    rendered = "".join(child.content for child in shown if child.type != "html_inline")
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
@example("mail a.b@c.example or mailto:a@b.example, xmpp:a@b.example/c")
@example("ftp://a.example http://a.example WWW.a.example")
@example("GHSA-aaaa-bbbb-cccc CVE-2020-1234")
@example("[^1] [ ] [x]")
@example("$x^2$ $$y$$ $`z`$ \\$w\\$")
def test_plain_is_one_paragraph_for_github(text: str) -> None:
    shown = github_html(escape.plain(text))
    assert re.fullmatch(r"(<p>([^<>$]|<span>\$</span>)*</p>\n)?", shown)
    assert not re.search(r"(?i)ghsa-|cve-\d", shown)


@given(hostile, hostile)
def test_a_table_row_has_its_cells_for_github(first: str, second: str) -> None:
    shown = github_html(
        f"| a | b |\n| --- | --- |\n| {escape.cell(first)} | {escape.cell(second)} |"
    )
    assert re.search(
        r"<tbody>\s*<tr>\s*(<td>(<code>[^<>]*</code>|–)</td>\s*){2}</tr>\s*</tbody>", shown
    )


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
