"""Random and truncated sources and diffs: never an exception, never a file lost in silence."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from test_oneflow_changes import TREE as ONEFLOW
from test_torch_native_changes import TREE as TORCH

from bot.changes.changes_json import to_json
from bot.changes.changeset import ChangedFile
from bot.changes.find import find_changes
from bot.changes.sources.cpp_source import read_cpp


@dataclass
class MadeChangeSet:
    """A change set from two dictionaries; None stands for what is not text."""

    base: dict[str, str | None]
    head: dict[str, str | None]
    notes: tuple[str, ...] = ()
    files: tuple[ChangedFile, ...] = field(init=False)

    def __post_init__(self) -> None:
        changed = [
            p for p in {**self.base, **self.head} if self.base.get(p, 0) != self.head.get(p, 0)
        ]
        self.files = tuple(
            ChangedFile(
                path if path in self.base else None,
                path if path in self.head else None,
                (),
                tuple(range(1, 1 + (self.head.get(path) or "").count("\n"))),
            )
            for path in changed
        )

    def base_text(self, path: str) -> str | None:
        return self.base.get(path)

    def head_text(self, path: str) -> str | None:
        return self.head.get(path)

    def head_paths(self) -> tuple[str, ...]:
        return tuple(self.head)


TREES = [{path: str(text) for path, text in tree.items()} for tree in (ONEFLOW, TORCH)]
PIECES = [
    *"ab_(){}[]<>;:,.#\"'\\/*=&\n\r\t 0\u00e9\x00\ud7ff",
    "def ",
    "class ",
    "#define X",
    'R"(',
]
JUNK = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


@st.composite
def changesets(draw: st.DrawFn) -> MadeChangeSet:
    base: dict[str, str | None] = dict(draw(st.sampled_from(TREES)))
    head = dict(base)
    for path in draw(st.lists(st.sampled_from(sorted(base)), min_size=1, max_size=3, unique=True)):
        text = base[path] or ""
        cut = draw(st.integers(0, len(text)))
        kind = draw(
            st.sampled_from(["truncate", "insert", "crlf", "binary", "delete", "rename", "no end"])
        )
        if kind == "delete":
            del head[path]
        elif kind == "rename":
            head[path.replace("oft", "aft") + ".caf\udce9"] = head.pop(path)
        else:
            head[path] = {
                "truncate": text[:cut],
                "insert": text[:cut] + draw(JUNK) + text[cut:],
                "crlf": text.replace("\n", "\r\n"),
                "binary": None,
                "no end": text.rstrip("\n"),
            }[kind]
    keeps_layout = {
        "torch/nn/functional.py",
        "python/oneflow/__init__.py",
        "oneflow/core/functional/functional_api.yaml",
    }
    for path in keeps_layout & set(base):
        head.setdefault(path, base[path])
    return MadeChangeSet(base, head)


@settings(max_examples=60, deadline=None)
@given(changesets())
def test_every_changed_file_is_accounted_for(changeset: MadeChangeSet) -> None:
    framework = "torch" if "torch/nn/functional.py" in changeset.base else "oneflow"
    changes = find_changes(changeset, framework)
    printed = str(to_json(changes)).encode()
    assert printed
    said = " ".join(
        [
            *(e.file for e in changes.unmapped),
            *changes.tests,
            *changes.notes,
            *(s for op in changes.ops for s in op.path),
        ]
    )
    for file in changeset.files:
        shown = file.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        assert shown in said


@settings(max_examples=200, deadline=None)
@given(JUNK)
def test_the_definitions_of_any_text_lie_within_its_lines(text: str) -> None:
    for definition in read_cpp("x.cpp", text):
        assert 1 <= definition.first <= definition.last <= text.count("\n") + 1


def test_a_hunk_of_fifty_thousand_lines() -> None:
    tree: dict[str, str | None] = dict(TREES[0])
    path = "oneflow/user/kernels/table.cpp"
    changeset = MadeChangeSet(
        tree, {**tree, path: "".join(f"int x{n} = {n};\n" for n in range(50_000))}
    )
    changes = find_changes(changeset, "oneflow")
    assert [entry.file for entry in changes.unmapped] == [path]
