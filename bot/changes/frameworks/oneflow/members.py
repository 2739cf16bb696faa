"""What inside a C++ definition changed or uses a name: members of classes, cases of a switch, guarded branches."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from bot.changes.definition import Definition

_ACCESS: Final = re.compile(r"(?:public|protected|private) : ")
_WORD: Final = re.compile(r"\w+")
_BEFORE_PARAMETERS: Final = re.compile(r"(operator \( \)|operator \W{1,9}|\b\w+) \(")
_CASE: Final = re.compile(r"\bcase (\w+) : ")
_GUARD: Final = r'op_type_name \( \) = ?= "(?P<op>\w+)"[^{};]*?\) \{|(?P<open>\{)|(?P<close>\})'


def members(code: str) -> Iterator[tuple[str, str]]:
    """The members of a class, from its tokens: (name, code); the name is "" for what is no function."""
    body = code.partition("{")[2]
    depth = 0
    start = 0
    for match in re.finditer(r"[(){};]", body):
        mark = match[0]
        depth += mark in "({"
        depth -= mark in ")}"
        if depth < 0:
            return
        if depth == 0 and mark in ";}":
            member = _ACCESS.sub("", body[start : match.end()]).strip(" ;")
            start = match.end()
            if member:
                found = _BEFORE_PARAMETERS.search(member.partition("{")[0])
                yield (found[1] if found else ""), member


def changed_members(definition: Definition) -> frozenset[str] | None:
    """The member functions that differ between both sides of a class; None when the change is of the class as a whole."""
    if definition.kind != "class" or not definition.before:
        return None
    old, new = definition.before, definition.code
    if old.partition("{")[0] != new.partition("{")[0]:
        return None
    one, other = Counter(members(old)), Counter(members(new))
    names = {name for name, _ in (one - other) + (other - one)}
    # A constructor, a destructor or a data member is part of all that the class does.
    whole = not names or any(name in ("", definition.name) for name in names)
    return None if whole else frozenset(names)


def takes_part(derived: Definition, base: Definition, changed: frozenset[str]) -> bool:
    """Whether a class that names a base is changed by a change of some of the base's member functions."""
    own = {name for name, _ in members(derived.code)}
    others = " ".join(code for name, code in members(base.code) if name not in changed)
    for name in changed:
        word = re.compile(rf"\b{re.escape(name)}" + (r"\b" if name[-1].isalnum() else ""))
        if name in own:
            if f"{base.name} :: {name}" in derived.code:
                return True
        elif (
            word.search(derived.code)
            or word.search(others)
            or not name.isidentifier()
            or re.search(
                rf"\b{re.escape(name)} \((?:(?!\b{name} \()[^{{;])*\boverride\b"
                rf"|\bvirtual\b(?:(?!\bvirtual\b)[^{{;])*\b{name} \(",
                base.code,
            )
        ):
            return True
    return False


def calls_one_of(user: Definition, base: Definition, changed: frozenset[str]) -> bool:
    """Whether a definition that has an object of a class may run one of the class's changed member functions.

    It names one, or one that leads to one within the class. Not told apart are operators, users that are no function or class,
    and those of a class with bases, for whoever has an object as one of a base runs its members without naming the class.
    """
    derived = " : " in base.code.partition("{")[0]
    if derived or user.kind not in ("class", "function") or not all(map(str.isidentifier, changed)):
        return True
    words: defaultdict[str, set[str]] = defaultdict(set)
    for name, code in members(base.code):
        words[name].update(_WORD.findall(code))
    found = set(changed)
    while more := {n for n, used in words.items() if n not in found and not found.isdisjoint(used)}:
        found |= more
    return not found.isdisjoint(_WORD.findall(user.code))


def changed_cases(definition: Definition) -> frozenset[str]:
    """The labels of a switch whose branches differ between both sides; none when anything else differs too."""
    if not definition.before:
        return frozenset()
    old, new = _CASE.split(definition.before), _CASE.split(definition.code)
    one = dict(zip(old[1::2], old[2::2], strict=False))
    other = dict(zip(new[1::2], new[2::2], strict=False))
    if old[0] != new[0]:
        return frozenset()
    return frozenset(name for name in {*one, *other} if one.get(name) != other.get(name))


def guards(code: str, name: str) -> tuple[str, ...]:
    """The op types under whose ``if (ctx->op_type_name() == "x")`` alone a name is used; none when it is used elsewhere too."""
    stack: list[str] = []
    found: dict[str, None] = {}
    for match in re.finditer(rf"{_GUARD}|(?P<name>\b{re.escape(name)}\b)", code):
        if match["op"]:
            stack.append(match["op"])
        elif match["open"]:
            stack.append("")
        elif match["close"]:
            del stack[-1:]
        elif not any(stack):
            return ()
        else:
            found[next(op for op in reversed(stack) if op)] = None
    return tuple(found)
