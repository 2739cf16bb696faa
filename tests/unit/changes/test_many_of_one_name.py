"""A file with thousands of functions of one name, as a generator writes it."""

from __future__ import annotations

from collections.abc import Callable

from test_torch_native_changes import TREE

from bot.changes.change import Changes

FILE = "aten/src/ATen/native/Extra.cpp"
COUNT = 3000


def test_the_first_of_many_functions_of_one_name_are_followed_and_the_file_says_so(
    changes_of: Callable[[dict[str, str], dict[str, str]], Changes],
) -> None:
    # Each of 3,000 overloads compared with each other would take half a minute.
    many = "\n".join(f"int repeated(int a{i}) {{ return {i}; }}" for i in range(COUNT))
    changes = changes_of({**TREE, FILE: ""}, {FILE: f"namespace at::native {{\n{many}\n}}\n"})
    why = {lost.file: lost.why for lost in changes.unmapped}[FILE]
    assert why.startswith("repeated: 3000 changed definitions of this name; the first 256 were")
