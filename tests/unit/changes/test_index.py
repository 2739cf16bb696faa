"""The index: the same answers as a search of the texts, with work that does not grow with what was read before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from git_repository import commit, git
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.changes.definition import Definition
from bot.changes.find import find_changes
from bot.changes.frameworks import FRAMEWORKS
from bot.changes.git_changeset import GitChangeSet
from bot.changes.index.blob_facts import decode_facts, encode_facts, read_facts, word_hash
from bot.changes.index.bounded import Bounded
from bot.changes.index.cpp_index import CppIndex
from bot.changes.index.facts import WordIndex
from bot.changes.index.include_graph import IncludeGraph
from bot.changes.index.reader_version import version_of
from bot.changes.index.store import IndexStore
from bot.changes.index.tree import Shared, Tree, holds_word
from bot.changes.patch_changeset import blob_name

WORDS = ["alpha", "beta", "gamma", "Alpha", "alpha2", "x", "caf\u00e9", "\u540d"]


def tree_of(files: dict[str, str], store: IndexStore | None = None) -> Tree:
    """A tree whose contents have the names that git would give them."""
    return Tree(
        files,
        files.get,
        blob_of=lambda path: blob_name(files[path].encode()),
        shared=Shared(store),
    )


TEXTS = st.lists(
    st.sampled_from([*WORDS, " ", "\n", "_", "(", ".", "\u3002", '"', "#include <b.h>\n"]),
    max_size=12,
).map("".join)
PATHS = st.sampled_from(["a.py", "b.h", "c/b.h", "d.cpp", "e.rst", "f/g.cu", "noext"])


@given(st.dictionaries(PATHS, TEXTS), st.lists(PATHS, unique=True), st.sampled_from(WORDS))
def test_a_search_finds_what_the_texts_hold(
    files: dict[str, str], paths: list[str], word: str
) -> None:
    expected = tuple(p for p in paths if p in files and holds_word(files[p], word))
    tree = tree_of(files)
    assert tree.containing(word, tuple(paths)) == expected
    assert tree.containing(word, paths) == expected  # a list is searched alike
    assert set(expected) <= set(tree.candidates(word, tuple(paths)))


@given(TEXTS)
def test_facts_survive_the_way_through_bytes(text: str) -> None:
    facts = read_facts(text)
    again = decode_facts(encode_facts(facts))
    assert np.array_equal(facts.words, again.words)
    assert np.array_equal(facts.macros, again.macros)
    assert facts.includes == again.includes


@given(st.binary(max_size=60))
def test_other_bytes_are_no_facts_or_facts(data: bytes) -> None:
    with suppress(ValueError):
        decode_facts(data)


def test_the_facts_of_a_text() -> None:
    facts = read_facts('#include "a/b.h"\n  # include <c>\n#define ONE(x) two_2\n//three\n')
    words = {"include", "a", "b", "h", "c", "define", "ONE", "x", "two_2", "three"}
    assert set(facts.words.tolist()) == {word_hash(word) for word in words}
    assert facts.macros.tolist() == [word_hash("ONE")]
    assert facts.includes == ("a/b.h", "c")


def test_no_words_and_unknown_words() -> None:
    assert WordIndex([]).candidates("word") is not None
    empty = WordIndex([read_facts("").words, read_facts("word").words])
    found = empty.candidates("word")
    assert found is not None
    assert found.tolist() == [1]


@given(
    st.lists(st.integers(0, 7), max_size=24),
    st.lists(st.integers(0, 7), max_size=24),
    st.integers(0, 7),
)
def test_what_sees_a_header_is_found_breadth_first(
    users: list[int], used: list[int], start: int
) -> None:
    paths = [f"f{number}.h" for number in range(8)]
    written: list[list[str]] = [[] for _ in paths]
    for user, target in zip(users, used, strict=False):
        written[user].append(paths[target])
    graph = IncludeGraph(paths, map(tuple, written))
    seen, queue = [start], [start]
    while queue:
        now = queue.pop(0)
        for number, names in enumerate(written):
            for name in names:
                if name == paths[now] and number not in seen:
                    seen.append(number)
                    queue.append(number)
    expected = tuple(paths[number] for number in seen)
    assert graph.seen_by(paths[start]) == expected
    assert graph.that_see(paths[start], paths) == expected


def test_an_include_means_the_neighbour_or_any_file_of_such_an_end() -> None:
    paths = ["a/x.h", "b/x.h", "b/use.cpp", "c/use.cpp"]
    graph = IncludeGraph(paths, [(), (), ("./x.h",), ("x.h", "b//x.h", "none.h")])
    assert graph.included("b/use.cpp") == ("b/x.h",)
    assert graph.included("c/use.cpp") == ("a/x.h", "b/x.h", "b/x.h")
    assert graph.resolve("d/other.cpp", ("../b/x.h",)) == ("b/x.h",)
    assert graph.seen_by("unknown.h") == ("unknown.h",)


def test_bounded_forgets_the_oldest() -> None:
    kept: Bounded[str, int] = Bounded(3)
    for name in "abc":
        kept.put(name, 1, 1)
    kept.get("a")
    kept.put("d", 1, 1)
    assert [name for name in "abcd" if name in kept] == ["a", "c", "d"]
    kept.put("big", 1, 100)
    assert (len(kept), kept.weight) == (1, 100)


KERNEL = "int Step(int x) { return x; }\nint User() { return Step(1); }\n"


def users(tree: Tree) -> list[tuple[str, str]]:
    index = CppIndex(tree, tuple(p for p in tree.paths if p.endswith((".cpp", ".h"))), print)
    return [(d.name, d.file) for p in index.paths for d in index.users("Step", p)]


def test_one_content_at_two_paths_is_two_files(tmp_path: Path) -> None:
    files = {"a.cpp": KERNEL, "b.cpp": KERNEL}
    for _ in range(2):  # without the cache, and with it
        store = IndexStore(tmp_path)
        tree = tree_of(files, store)
        assert users(tree) == [("User", "a.cpp"), ("User", "b.cpp")]
        assert tree.shared.facts.texts_read <= 1
        store.close()


def test_a_content_that_changes_under_its_path(tmp_path: Path) -> None:
    for name in ("User", "Other", "User"):
        store = IndexStore(tmp_path)
        assert users(tree_of({"a.cpp": KERNEL.replace("User", name)}, store)) == [(name, "a.cpp")]
        store.close()


def another_version(*packages: str) -> str:
    return "new"


def test_another_version_of_the_reader_reads_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> tuple[int, int]:
        store = IndexStore(tmp_path)
        tree = tree_of({"a.cpp": KERNEL}, store)
        assert users(tree) == [("User", "a.cpp")]
        store.close()
        return tree.shared.facts.texts_read, tree.shared.parsed.parsed

    assert run() == (1, 1)
    assert run() == (0, 0)
    monkeypatch.setattr("bot.changes.index.parsed.version_of", another_version)
    assert run() == (0, 1)
    monkeypatch.setattr("bot.changes.index.facts.version_of", another_version)
    assert run() == (1, 0)


def test_the_version_is_of_the_sources() -> None:
    assert version_of("bot.changes.sources") == version_of("bot.changes.sources")
    assert version_of("bot.changes.sources") != version_of("bot.changes.index")


def test_an_entry_of_another_shape_is_read_anew(tmp_path: Path) -> None:
    store = IndexStore(tmp_path)
    tree = tree_of({"a.cpp": KERNEL}, store)
    users(tree)
    store.flush()
    assert store._connection is not None  # pyright: ignore[reportPrivateUsage]
    rows = store._connection.execute("SELECT key FROM entries").fetchall()  # pyright: ignore[reportPrivateUsage]
    for junk in (b"", b"\xff" * 40, (3).to_bytes(8, "little") + b"x\x9c"):
        for (key,) in rows:
            store.put(key, junk)
        store.flush()
        assert users(tree_of({"a.cpp": KERNEL}, store)) == [("User", "a.cpp")]
    store.close()


def test_a_content_that_a_clone_lacks_is_read_when_it_is_there(tmp_path: Path) -> None:
    blob = blob_name(KERNEL.encode())
    for text, expected in ((None, []), (KERNEL, [("User", "a.cpp")])):
        store = IndexStore(tmp_path)
        tree = Tree(["a.cpp"], {"a.cpp": text}.get, blob_of=lambda path: blob, shared=Shared(store))
        assert users(tree) == expected
        assert [d.name for d in CppIndex(tree, tree.paths, print).definitions("a.cpp")] == (
            ["Step", "User"] if text else []
        )
        store.close()


# Growth, counted in what is read


def made(kernels: int) -> dict[str, str]:
    tree = {
        f"oneflow/core/made{n}.cpp": f'#include "shared.h"\nint Made{n}() {{ return Own{n}(); }}\n'
        for n in range(kernels)
    }
    return tree | {"oneflow/core/shared.h": "int Shared();\n"}


@pytest.mark.parametrize("size", [10, 300])
def test_a_search_parses_the_files_that_hold_the_name_and_no_others(size: int) -> None:
    tree = tree_of(made(size))
    index = CppIndex(tree, tree.paths, print)
    assert [d.name for d in index.naming("Own7", tree.paths)] == ["Made7"]
    assert list(index.users("Shared", "oneflow/core/shared.h")) == []
    assert tree.shared.parsed.parsed == 2
    assert tree.shared.facts.texts_read == size + 1


def test_a_file_is_parsed_once_however_often_it_is_asked_for() -> None:
    tree = tree_of(made(50))
    index = CppIndex(tree, tree.paths, print)
    for _ in range(3):
        for number in range(50):
            assert len(list(index.naming(f"Own{number}", tree.paths))) == 1
    assert tree.shared.parsed.parsed == 50


def test_of_too_many_files_that_name_a_word_the_first_are_read_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bot.changes.index.cpp_index.MAX_FILES_OF_A_WORD", 5)
    notes: list[str] = []
    tree = tree_of(made(10))
    found: list[Definition] = list(
        CppIndex(tree, tree.paths, notes.append).naming("return", tree.paths)
    )
    assert [d.name for d in found] == [f"Made{number}" for number in range(5)]
    assert notes == ["return is named in 10 C++ files; the first 5 were read"]


# The same answers with and without a cache

PIECES = {
    "oneflow/user/kernels/a_kernel.cpp": [
        '#include "shared.h"\nclass AKernel { void Compute() { Shared(); } };\nREGISTER_USER_KERNEL("softplus")'
        ".SetCreateFn<AKernel>();\n",
        '#include "shared.h"\nclass AKernel { void Compute() { Shared(); Other(); } };\n'
        'REGISTER_USER_KERNEL("softplus").SetCreateFn<AKernel>();\n',
        "int nothing() { return 1; }\n",
    ],
    "oneflow/user/kernels/shared.h": [
        "inline int Shared() { return 1; }\n",
        "inline int Shared() { return 2; }\ninline int Other() { return 1; }\n",
    ],
    "oneflow/core/functional/functional_api.yaml": [
        '- name: "softplus"\n  signature: "Tensor (Tensor x) => Softplus"\n  bind_python: True\n',
    ],
    "oneflow/core/functional/impl/f.cpp": [
        'class SoftplusFunctor { SoftplusFunctor() { op_ = OpBuilder("softplus"); } };\n'
        'ONEFLOW_FUNCTION_LIBRARY(m) { m.add_functor<impl::SoftplusFunctor>("Softplus"); }\n',
    ],
    "oneflow/ir/include/OneFlow/OneFlowUserOps.td": [
        'def OneFlow_SoftplusOp : OneFlow_BaseOp<"softplus", [NoMemoryEffect]> {\n  let x = 1;\n}\n',
        'def OneFlow_SoftplusOp : OneFlow_BaseOp<"softplus", [NoGrad]> {\n  let x = 1;\n}\n',
    ],
    "python/oneflow/__init__.py": ["from oneflow._C import softplus\n", "from oneflow._C import softplus as s\n"],
    "python/oneflow/nn/functional/__init__.py": ["from oneflow._C import softplus\nfrom oneflow.m import f\n"],
    "python/oneflow/m.py": [
        "import oneflow as flow\n\ndef f(x):\n    return flow._C.softplus(x)\n",
        "import oneflow as flow\n\ndef _g(x):\n    return x\n\ndef f(x):\n    return _g(flow._C.softplus(x))\n",
        "def f(:\n",
    ],
    "docs/a.md": ["words\n", "other words\n"],
}  # fmt: skip


@st.composite
def small_trees(
    draw: st.DrawFn,
) -> tuple[dict[str, str | bytes | None], dict[str, str | bytes | None]]:
    before: dict[str, str | bytes | None] = {p: draw(st.sampled_from(t)) for p, t in PIECES.items()}
    edits: dict[str, str | bytes | None] = {}
    for path in draw(st.lists(st.sampled_from(sorted(PIECES)), min_size=1, unique=True)):
        options: list[str | None] = [*PIECES[path]]
        if "functional_api" not in path:
            options.append(None)
        edits[path] = draw(st.sampled_from(options))
    return before, edits


@settings(max_examples=25, deadline=None)
@given(small_trees())
def test_the_cached_answer_is_the_uncached_one(
    tmp_path_factory: pytest.TempPathFactory,
    trees: tuple[dict[str, str | bytes | None], dict[str, str | bytes | None]],
) -> None:
    repository = tmp_path_factory.mktemp("repository")
    cache = tmp_path_factory.getbasetemp() / "shared cache"  # with what other examples left there
    git(repository, "init", "-q")
    base, head = commit(repository, trees[0]), commit(repository, trees[1])
    with GitChangeSet(repository, base, head) as changeset:
        expected = find_changes(changeset)
    for frameworks in ((*FRAMEWORKS,), (*FRAMEWORKS,), FRAMEWORKS, FRAMEWORKS):
        store = IndexStore(cache)
        with GitChangeSet(repository, base, head) as changeset:
            found = find_changes(changeset, frameworks=frameworks, store=store)
        store.close()
        assert found == expected


def test_an_answer_is_kept_for_a_diff_of_commits_and_not_for_other_rules(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = commit(repository, {path: texts[0] for path, texts in PIECES.items()})
    head = commit(
        repository, {"oneflow/user/kernels/shared.h": "inline int Shared() { return 3; }\n"}
    )

    def run(store: IndexStore) -> tuple[str, ...]:
        with GitChangeSet(repository, base, head) as changeset:
            return tuple(op.op for op in find_changes(changeset, store=store).ops)

    first = run(IndexStore(tmp_path / "cache"))
    refused: Callable[..., object] = lambda *arguments: pytest.fail("read anew")  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr("bot.changes.find._find", refused)
        assert run(IndexStore(tmp_path / "cache")) == first
    (tmp_path / "file").write_text("")
    with GitChangeSet(repository, base, head) as changeset:
        found = find_changes(changeset, store=IndexStore(tmp_path / "file"))
    assert tuple(op.op for op in found.ops) == first
    assert "cannot be used" in found.notes[-1]
