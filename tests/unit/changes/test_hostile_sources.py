"""Sources written to cost time or memory, or to break the answer, as a pull request may bring them."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from git_repository import commit
from test_torch_native_changes import TREE

from bot.changes.change import Changes, Unmapped
from bot.changes.changes_json import printable, to_json
from bot.changes.file_text import MAX_TEXT_BYTES, NOT_READ
from bot.changes.find import find_changes
from bot.changes.frameworks.megengine.sources import read_params
from bot.changes.frameworks.mindspore.rows import table_rows
from bot.changes.frameworks.torch.rules import listed_definitions
from bot.changes.git_changeset import GitChangeSet
from bot.changes.sources.cpp_blocks import blocks
from bot.changes.sources.cpp_source import read_cpp
from bot.changes.sources.text_lines import TextLines
from bot.changes.sources.yaml_entries import entry_definitions, read_entries

Run = Callable[[dict[str, str | bytes | None], dict[str, str | bytes | None]], Changes]
KERNEL = "aten/src/ATen/native/cpu/Activation.cpp"


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long four times as much takes."""

    def seconds(count: int) -> float:
        times: list[float] = []
        for _ in range(3):
            start = time.process_time()
            work(count)
            times.append(time.process_time() - start)
        return min(times)

    return seconds(4 * size) / max(seconds(size), 0.005)


def test_a_larger_source_is_said_to_be_unread(changes_of: Run) -> None:
    large = "int a;\n" * (MAX_TEXT_BYTES // 7 + 1)
    changes = changes_of(dict(TREE), {KERNEL: large})
    assert changes.unmapped == (Unmapped(KERNEL, NOT_READ),)


def test_an_unread_source_beside_the_change_is_noted(changes_of: Run) -> None:
    tree = {**TREE, "aten/src/ATen/native/Large.cpp": "int a;\n" * (MAX_TEXT_BYTES // 7 + 1)}
    edited = str(TREE[KERNEL]).replace("loop(x)", "loop(x + 1)")
    changes = changes_of(tree, {KERNEL: edited})
    assert [op.op for op in changes.ops] == ["nn.functional.softplus"]
    assert f"aten/src/ATen/native/Large.cpp: not read ({NOT_READ})" in changes.notes


def test_paths_that_are_not_utf8_are_shown_in_every_part_of_the_answer(repository: Path) -> None:
    base = commit(repository, TREE)
    folder = os.fsencode(repository / "aten/src/ATen/native")
    Path(os.fsdecode(folder + b"/\xff.cpp")).write_text("int fresh(){return 1;}\n")
    head = commit(repository, {})
    with GitChangeSet(repository, base, head) as changeset:
        changes = find_changes(changeset)
    json.dumps(to_json(changes), ensure_ascii=False).encode()
    lost = changes.unmapped[0]
    assert lost.file == "aten/src/ATen/native/\\xff.cpp"
    assert "(aten/src/ATen/native/\\xff.cpp:1)" in lost.why


def test_half_of_a_pair_of_surrogates_is_shown() -> None:
    changes = printable(Changes("torch", notes=("a\ud800b", "\udcff", "é")))
    assert changes.notes == ("a\\ud800b", "\\xff", "é")


def test_names_that_a_source_makes_of_half_a_pair_are_no_exception(changes_of: Run) -> None:
    made = '__all__ = ["\\ud800x", "softplus"]\nglobals()["\\ud801"] = softplus\n'
    path = "torch/nn/functional.py"
    changes = changes_of(dict(TREE), {path: str(TREE[path]) + made})
    json.dumps(to_json(changes), ensure_ascii=False).encode()


def test_a_module_nested_too_deep_says_so(changes_of: Run) -> None:
    changes = changes_of(dict(TREE), {"torch/nn/deep.py": f"x={'(' * 50_000}{')' * 50_000}\n"})
    assert [lost.file for lost in changes.unmapped] == ["torch/nn/deep.py"]
    assert not changes.unmapped[0].why.endswith(": )")


def test_long_texts_behind_aliases_are_bounded() -> None:
    # 5 GB when written out.
    text = f'- op: &x "{"y" * 100_000}"\n  b: [{", ".join(["*x"] * 50_000)}]\n'
    assert entry_definitions("a.yaml", text, "op") is None


def test_the_first_of_merged_mappings_counts_and_own_keys_before_all() -> None:
    entries = read_entries("- {a: 1, b: 2}\n- {<<: [{a: 3, c: 4}, {a: 5, c: 6, d: 7}], b: 8}\n")
    assert entries is not None
    assert entries[1].values == {"a": "3", "b": "8", "c": "4", "d": "7"}


def test_many_braces_behind_a_long_header_take_linear_time() -> None:
    def work(count: int) -> None:
        read_cpp("a.cpp", "a " * count + "=" + " {} ," * count)

    assert growth(work, 4_000) < 10


def test_blocks_that_never_close_take_linear_time_and_are_none() -> None:
    opening = re.compile(r"namespace \w+ \{")

    def work(count: int) -> None:
        assert blocks("namespace a {\n" * count, opening) == ()

    assert growth(work, 4_000) < 10


def test_blocks_have_their_lines_the_innermost_first() -> None:
    text = "int a;\nnamespace a {\nnamespace b {\nf() { '{'; \"}\"; /* } */ }\n} // }\n\n}\n"
    assert blocks(text, re.compile(r"namespace \w+ \{")) == ((3, 5), (2, 7))


def test_lines_of_positions() -> None:
    lines = TextLines("a\n\nbc\n")
    assert [lines.number(position) for position in (0, 1, 2, 3, 4, 6)] == [1, 1, 2, 3, 3, 4]


def test_rows_of_a_list_take_linear_time() -> None:
    assert growth(lambda count: listed_definitions("a.yaml", "  - add\n" * count), 20_000) < 10


def test_rows_of_a_table_have_their_lines_in_linear_time() -> None:
    def rows(count: int) -> list[tuple[str, int]]:
        text = (
            "static const T table = {\n"
            + "".join(f'{{"Op{n}", a}},\n' for n in range(count))
            + "};\n"
        )
        code = (
            "static const T table = { "
            + "".join(f'{{ "Op{n}" , a }} , ' for n in range(count))
            + "} ;"
        )
        table = read_cpp("a.cc", text)[0]
        whole = type(table)("a.cc", "table", "assignment", 1, count + 2, code, table.uses)
        found = table_rows(whole, text.split("\n"))
        return [(row.name, row.first) for row in found if row.kind == "entry"]

    assert rows(3) == [('{ "Op0" , a }', 2), ('{ "Op1" , a }', 3), ('{ "Op2" , a }', 4)]
    assert growth(rows, 500) < 10


def test_parameters_without_arguments_or_nested_too_deep_are_no_exception() -> None:
    assert read_params("a.py", "pdef()\npdef('Add').add_enum()\n") is not None
    assert read_params("a.py", "pdef(" + "-" * 50_000 + "1)") is None
