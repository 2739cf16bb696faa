"""The final answer: the nearest of many ops, few notes, and walks that share their work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bot.changes.change import ChangedOp
from bot.changes.definition import Definition
from bot.changes.found_ops import MAX_INDIRECT_OPS, nearest
from bot.changes.graph import Edge, Node, Walker
from bot.changes.notes import MAX_NAMED, merged


def op(name: str, how: str, steps: int) -> ChangedOp:
    return ChangedOp(name, "direct" if how == "direct" else "indirect", (), ("step",) * steps)


def test_of_many_indirect_ops_the_nearest_stay_and_direct_ones_all() -> None:
    far = tuple(op(f"far{n:03}", "indirect", 4) for n in range(10))
    near = tuple(op(f"near{n:03}", "indirect", 3) for n in range(MAX_INDIRECT_OPS - 1))
    direct = tuple(op(f"direct{n:03}", "direct", 9) for n in range(200))
    kept, left_out = nearest((*direct, *far, *near))
    assert kept == (*direct, far[0], *near)
    assert left_out == tuple(f"far{n:03}" for n in range(1, 10))


def test_few_ops_all_stay() -> None:
    few = tuple(op(f"op{n}", "indirect", n) for n in range(MAX_INDIRECT_OPS))
    assert nearest(few) == (few, ())


def test_notes_of_one_kind_are_one_note() -> None:
    assert merged(
        [
            "docs/a.md: documentation, changes no op",
            "x has 13 users: a general tool",
            "docs/b.md: documentation, changes no op",
            "c.cpp: 2 changed definitions accounted for",
            "docs/a.md: documentation, changes no op",
            "d.cpp: 1 changed definitions accounted for",
        ]
    ) == (
        "docs/a.md, docs/b.md: documentation, changes no op",
        "x has 13 users: a general tool",
        "c.cpp: 2 changed definitions accounted for; likewise d.cpp",
    )


def test_a_long_list_of_names_is_counted() -> None:
    (note,) = merged(f"docs/{n}.md: documentation, changes no op" for n in range(MAX_NAMED + 7))
    assert note.startswith("docs/0.md, docs/1.md, ")
    assert note.endswith(f"docs/{MAX_NAMED - 1}.md and 7 more: documentation, changes no op")


def test_no_notes() -> None:
    assert merged([]) == ()


def test_walks_from_many_changes_look_for_a_nodes_edges_once() -> None:
    asked: Counter[str] = Counter()

    def successors(node: Node) -> Iterator[Edge]:
        asked[node.name] += 1
        if node.name.startswith("change"):
            yield Edge(Node("code", "shared"), "uses")
        elif node.name == "shared":
            yield from (Edge(Node("public", f"op{n}"), "is") for n in range(5))

    walker = Walker(successors)
    walks = [walker.walk(Node("code", f"change{n}"), "changes") for n in range(100)]
    assert all([r.name for r in w.reached] == [f"op{n}" for n in range(5)] for w in walks)
    assert {walk.visited for walk in walks} == {2}
    assert asked["shared"] == 1


def test_overloads_are_not_taken_for_one_another() -> None:
    def at(line: int, before: str = "") -> Node:
        made = Definition("a.cpp", "f", "function", line, line, "f", before=before)
        return Node("cpp", "f", "a.cpp", made)

    def successors(node: Node) -> Iterator[Edge]:
        if node.definition is not None:
            name = f"op{node.definition.first}{node.definition.before}"
            yield Edge(Node("public", name), "is")

    walker = Walker(successors)
    nodes = (at(1), at(2), at(1), at(1, "old"), at(1, "older"))
    names = [walker.walk(node, "changes").reached[0].name for node in nodes]
    assert names == ["op1", "op2", "op1", "op1old", "op1older"]
