"""Templates of Markdown: how they are read, and the filters that make texts from outside harmless in them."""

from __future__ import annotations

import functools

import jinja2

from bot.report import escape


@functools.cache
def markdown_template(package: str, name: str) -> jinja2.Template:
    """The template ``name`` in a package's folder ``templates``, compiled once.

    Nothing is escaped by itself: each text passes through the filter for its place.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {
        "code": escape.code,
        "cell": escape.cell,
        "plain": escape.plain,
        "fence": escape.fence,
    }
    return environment.get_template(name)
