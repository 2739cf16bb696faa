"""YAML entries and TableGen records, written out by reading the sources."""

from __future__ import annotations

import pytest

from bot.changes.frameworks.mindspore.op_yamls import mapping_definitions
from bot.changes.sources.tablegen import MNEMONIC, read_tablegen
from bot.changes.sources.yaml_entries import entry_definitions, read_entries

RECORDS = """#ifndef OPS
#define OPS
include "base.td"

class Base<string mnemonic, list<Trait> traits = []> : Op<Dialect, mnemonic, traits>;

// def Gone : Base<"gone">;
def AddOp : Base<"add", [NoSideEffect]> {
  let summary = "adds } two";
  let description = [{ It's an op: don't {worry. }];
  let input = (ins T:$x, T:$y);
  let extra = [{
    // what it says
    return "}" + f(x);  /* a */
  }];
}
let inputs = 2, outputs = 1 in {
  def SubOp : Base<"sub"> ;
  foreach i = [1, 2] in
  def Mul#i : Base<"mul" # i>;
}
multiclass Pair<string n> { def _a : Base<n # "_a">; def _b : Base<n # "_b">; }
defm Two : Pair<"two">;
def : Pat<(A $x), (B $x)>;
#endif
"""


def test_records_their_kinds_and_lines() -> None:
    found = read_tablegen("x.td", RECORDS)
    assert [(d.kind, d.name, d.first, d.last) for d in found] == [
        ("class", "Base", 5, 5), ("entry", "AddOp", 8, 16), ("entry", "SubOp", 18, 18), ("entry", "Mul#i", 20, 20),
        ("class", "Pair", 22, 22), ("entry", "Two", 23, 23), ("entry", "def : Pat < ( A $ x ) , ( B $ x ) > ;", 24, 24),
    ]  # fmt: skip
    assert [m[1] for d in found if (m := MNEMONIC.search(d.code))] == ["add", "sub", "mul", "two"]


def codes(text: str) -> dict[str, str]:
    return {d.name: d.code for d in read_tablegen("x.td", text)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("adds } two", "adds { three"),
        ("don't {worry", "do\n worry }"),
        ("// what it says", "// what it does"),
        ("/* a */", "\n"),
        ("def SubOp : Base<\"sub\"> ;", "def SubOp\n  : Base<\"sub\">;  // subtracts"),
        ("\n", "\r\n"),
    ],
)  # fmt: skip
def test_what_changes_nothing(old: str, new: str) -> None:
    assert codes(RECORDS.replace(old, new)) == codes(RECORDS)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("f(x);", "g(x);", ["AddOp"]),
        ("T:$y", "T:$z", ["AddOp"]),
        ("outputs = 1", "outputs = 2", ["SubOp", "Mul#i"]),
        ("[1, 2]", "[1, 3]", ["Mul#i"]),
        ('"_b"', '"_c"', ["Pair"]),
        ('Pair<"two">', 'Pair<"three">', ["Two"]),
    ],
)
def test_what_changes_one_record(old: str, new: str, names: list[str]) -> None:
    before, after = codes(RECORDS), codes(RECORDS.replace(old, new))
    assert [name for name in before if before[name] != after.get(name)] == names


ENTRIES = """# ops
- &abs
  op : abs
  args : (Tensor x)

- op : acos
  args : (Tensor x)
  args : (Tensor y)
- <<: *abs
  op : abs_
"""


def test_entries_with_anchors_merges_and_keys_written_twice() -> None:
    entries = read_entries(ENTRIES)
    assert entries is not None
    assert [(e.values, e.first, e.last) for e in entries] == [
        ({"op": "abs", "args": "(Tensor x)"}, 2, 4),
        ({"op": "acos", "args": "(Tensor x)", "args#2": "(Tensor y)"}, 6, 8),
        ({"op": "abs_", "args": "(Tensor x)"}, 9, 10),
    ]


def named(text: str) -> list[tuple[str, str]]:
    return [(d.name, d.code) for d in entry_definitions("x.yaml", text, "op") or ()]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# ops", "# operators\n"),
        ("op : abs\n  args : (Tensor x)", "args: '(Tensor x)'\n  op: abs  # absolute"),
        ("- op : acos", "\n\n- op : acos"),
        ("\n", "\r\n"),
    ],
)
def test_layout_of_entries_is_no_change(old: str, new: str) -> None:
    assert named(ENTRIES.replace(old, new)) == named(ENTRIES)


@pytest.mark.parametrize(
    "text", ["a: 1", "- a\n\t- b: 1", "- {a: [}", "- a: 1\n---\nb: 2", "- *x", "a\n- b"]
)
def test_what_is_no_list_of_entries(text: str) -> None:
    assert entry_definitions("x.yaml", text, "op") is None


def test_several_documents() -> None:
    assert [name for name, _ in named("- op: a\n---\n- op: b\n")] == ["a", "b"]


def test_a_file_of_comments_has_no_entries() -> None:
    assert entry_definitions("x.yaml", "# later\n", "op") == ()


def test_a_key_of_a_mapping_that_is_written_twice_keeps_both_values() -> None:
    before, after = (
        mapping_definitions("add_op.yaml", f"add:\n  class: {first}\n  class: Add\n")
        for first in ("Plus", "Sum")
    )
    assert before is not None
    assert after is not None
    assert [d.code for d in before] == ['{"class": "Plus", "class#2": "Add"}']
    assert [d.code for d in after] == ['{"class": "Sum", "class#2": "Add"}']
