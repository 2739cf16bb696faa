"""What a module offers: ``__all__`` that is put together, and names that a plain module passes on."""

from __future__ import annotations

import pytest

from bot.changes.index.python_index import PythonIndex, PythonLayout
from bot.changes.index.tree import Tree
from bot.changes.sources.python_source import read_python

FILES = {
    "pkg/__init__.py": "from pkg.inner import *\n__all__ = ['base']\n__all__.extend(inner.__all__)\n",
    "pkg/inner.py": "def relu(x): return x\n\ndef gelu(x): return x\n",
    "pkg/functional.py": "from pkg.inner import relu\nfrom pkg.inner import gelu\n__all__ = ['relu']\n",
}


def test_an_extended_all_offers_what_is_imported_with_a_star() -> None:
    layout = PythonLayout("pkg", ("",), ("pkg", "pkg.functional"))
    index = PythonIndex(Tree(FILES, FILES.get), layout, lambda line: None)
    assert index.aliases["pkg.inner.relu"] == ("pkg.relu", "pkg.functional.relu")
    assert index.aliases["pkg.inner.gelu"] == ("pkg.gelu",)


@pytest.mark.parametrize(
    ("text", "exported"),
    [
        ("__all__ = ['a']\n__all__.extend(['b'])\n", ("a", "b")),
        ("__all__ = ['a']\n__all__ += ('b',)\n", ("a", "b")),
        ("__all__ = ['a']\n__all__.extend(other.__all__)\n", None),
        ("__all__ = ['a']\n__all__ += other.__all__\n", None),
    ],
)
def test_all_is_known_when_all_of_it_is_written_out(
    text: str, exported: tuple[str, ...] | None
) -> None:
    file = read_python("m.py", text, "m")
    assert file is not None
    assert file.exported == exported


def test_users_of_a_name_that_it_is_exported_under() -> None:
    files = FILES | {
        "pkg/renamed.py": "from pkg.inner import relu as rectify\n__all__ = ['rectify']\n",
        "pkg/layer.py": "import pkg.renamed as F\n\ndef forward(x):\n    return F.rectify(x)\n",
    }
    layout = PythonLayout("pkg", ("",), ("pkg.renamed",))
    index = PythonIndex(Tree(files, files.get), layout, lambda line: None)
    assert [place for place, _ in index.users("pkg.inner.relu")] == ["pkg.layer.forward"]
