"""Repositories of a layout that no rules know: what their configuration states counts all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import commit

from bot.changes.changeset import ChangesError
from bot.plan import ChangeSource
from bot.subject import Subject, changed_subject

STATED = """version: 1
framework: torch
ops:
  - paths: ["kernels/**"]
    ops: [nn.functional.softplus, exp]
  - paths: ["tools/**"]
    ops: []
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def subject(repository: Path, config: str, framework: str | None = None) -> Subject:
    files = {"kernels/soft.cu": "int a;\n", "tools/a.sh": "a\n", "other/b.cpp": "int b;\n"}
    base = commit(repository, {**files, ".github/opdiff.yml": config})
    head = commit(
        repository, {path: text.replace("a", "c").replace("b", "d") for path, text in files.items()}
    )
    change = ChangeSource(repository=str(repository), base=base, head=head, framework=framework)
    return changed_subject(change)


@pytest.mark.parametrize("framework", [None, "torch"])
def test_stated_ops_are_tested_and_what_is_not_stated_is_said(
    repository: Path, framework: str | None
) -> None:
    config = STATED if framework is None else STATED.replace("framework: torch\n", "")
    found = subject(repository, config, framework)
    assert found.framework == "torch"
    assert found.ops == ("exp", "nn.functional.softplus")
    assert found.changes is not None
    assert [op.path for op in found.changes.ops] == [
        ("kernels/soft.cu changes exp, as stated in .github/opdiff.yml",),
        ("kernels/soft.cu changes nn.functional.softplus, as stated in .github/opdiff.yml",),
    ]
    assert [entry.file for entry in found.changes.unmapped] == ["other/b.cpp"]
    assert any("tools/a.sh: changes no op" in note for note in found.changes.notes)


def test_without_a_framework_one_line_says_what_to_do(repository: Path) -> None:
    with pytest.raises(
        ChangesError, match=r"no known framework .*torch.*--framework, or `framework:`"
    ):
        subject(repository, STATED.replace("framework: torch\n", ""))
