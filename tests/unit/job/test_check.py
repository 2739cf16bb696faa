"""A check of a diff that changes no op: quick, and no environment is made and no worker started for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from bot.changes.change import ChangedLines, ChangedOp, Changes
from bot.check import CheckRequest, assign, check, plan_check
from bot.config import Config
from bot.plan import ChangeSource
from bot.progress import Progress
from bot.report.results import read_results
from bot.run import resume
from bot.subject import Subject
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.overlay import NotCarried, Overlay
from bot.workshop import Workshop

ADDED = "--- /dev/null\n+++ b/{file}\n@@ -0,0 +1 @@\n+{text}\n"


class NoEnvironments(EnvironmentStore):
    """A store that nobody may ask for anything."""

    def prepare(self, *_: object, **__: object):  # type: ignore[override]
        raise AssertionError("an environment was asked for")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(NoEnvironments(tmp_path / "cache"), Progress(Console(stderr=True), quiet=True))


def checked(tmp_path: Path, workshop: Workshop, file: str, text: str):
    tree = tmp_path / "tree"
    (tree / "torch").mkdir(parents=True)
    (tree / "torch" / "__init__.py").touch()
    (tree / "torch" / "functional.py").write_text("def add(x, y):\n    return x + y\n")
    patch = tmp_path / "some.patch"
    patch.write_text(ADDED.format(file=file, text=text))
    source = ChangeSource(framework="torch", patch=str(patch), source=str(tree))
    return check(CheckRequest(source), tmp_path / "out", workshop)


def test_documentation_alone_is_clean(tmp_path: Path, workshop: Workshop) -> None:
    results = checked(tmp_path, workshop, "docs/guide.md", "A word.")
    assert (results.result, results.exit_code) == ("clean", 0)
    assert results.targets == ()
    assert results.notes[0] == "no op is changed: nothing was run"
    assert read_results(tmp_path / "out" / "results.json") == results
    assert (tmp_path / "out" / "report.md").is_file()


def test_a_file_that_says_nothing_of_ops_is_incomplete(tmp_path: Path, workshop: Workshop) -> None:
    results = checked(tmp_path, workshop, "torch/table.bin", "1 2 3")
    assert (results.result, results.exit_code) == ("incomplete", 1)
    assert results.notes[0].startswith("torch/table.bin is changed, and no op could be proven")


def overlay(tmp_path: Path, *not_carried: NotCarried) -> Overlay:
    environment = Environment("torch@pr", "torch", tmp_path / "python", "overlay", "digest")
    return Overlay(environment, (), (), (), not_carried)


def test_what_the_release_lacks_is_not_tested_by_its_overlay(
    tmp_path: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that holds `sum` is newer than the release: the overlay is the release as it was, for `sum`."""
    made = overlay(
        tmp_path,
        NotCarried("torch/newer.py", "the release has no such file", missed=True),
        NotCarried("tools/lint.py", "not installed with the package"),
    )
    monkeypatch.setattr("bot.check.make_candidate", lambda *_: made)
    monkeypatch.setattr("bot.check.resolve", lambda target, *_: target)
    changes = Changes(
        "torch",
        (
            ChangedOp("add", "direct", (), (), (ChangedLines("torch/functional.py", 1, 2),)),
            ChangedOp("sum", "direct", (), (), (ChangedLines("torch/newer.py", 3, 4),)),
            ChangedOp("exp", "direct", (), (), (), in_python=False),
        ),
    )
    ops = tuple(op.op for op in changes.ops)
    subject = Subject(ChangeSource(), "torch", Config(), ops, changes, object())  # type: ignore[arg-type]
    assignment = assign(plan_check(CheckRequest(ChangeSource()), subject), subject, workshop)
    assert set(assignment.untestable) == {"sum", "exp"}
    assert assignment.untestable["sum"].startswith("torch/newer.py is changed, and the release has")
    assert assignment.shortfalls == ("torch/newer.py was not tested: the release has no such file",)


def test_it_can_be_resumed_like_any_other(tmp_path: Path, workshop: Workshop) -> None:
    first = checked(tmp_path, workshop, "docs/guide.md", "A word.")
    again = resume(tmp_path / "out", workshop)
    assert again.model_copy(update={"run": first.run}) == first
