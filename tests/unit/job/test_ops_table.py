"""`opdiff ops`: what it says of frameworks that it cannot look up."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from bot.errors import OpDiffError
from bot.ops_table import list_ops
from bot.progress import Progress
from bot.targets.environment_store import EnvironmentStore
from bot.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(EnvironmentStore(tmp_path), Progress(Console(stderr=True), quiet=True))


@pytest.mark.parametrize(("name", "says"), [("nothing", "known"), ("trch", "did you mean torch")])
def test_an_unknown_framework(workshop: Workshop, name: str, says: str) -> None:
    with pytest.raises(
        OpDiffError, match=f"--framework {name}: no such framework: .*{says}"
    ) as caught:
        list_ops(workshop, name)
    assert "--baseline" not in str(caught.value)


def test_one_without_a_default_release(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(framework: str) -> object:
        raise OpDiffError("give --baseline and --peer")

    monkeypatch.setattr("bot.ops_table.defaults_of", none)
    with pytest.raises(OpDiffError, match=r"name one, as in torch==1\.2\.3") as caught:
        list_ops(workshop, "torch")
    assert "--baseline" not in str(caught.value)
