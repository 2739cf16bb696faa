"""``opdiff bisect`` in released environments: a fault that is known to have been in one release and not in the next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bot.bisecting import Bisection, bisect
from bot.errors import OpDiffError
from bot.oracle.finding import Finding, Mismatch
from bot.programs.builder import ProgramBuilder
from bot.programs.program import digest
from bot.progress import Progress
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.finding_folder import write_finding
from bot.report.results import RunFacts, TargetFacts
from bot.targets.environment_store import EnvironmentStore
from bot.targets.outcome import Outcome
from bot.workshop import Workshop

WRONG, RIGHT = "torch==1.8.1:cpu", "torch==2.13.0:cpu"
INSTALLED = ("2.13.0", "1.13.1", "1.12.1", "1.10.0", "1.9.0", "1.8.1")


def index(arguments: Sequence[str]) -> str:
    """What a package index answers that has exactly these releases."""
    return json.dumps({"name": arguments[0], "versions": INSTALLED})


def softplus_finding(folder: Path) -> Path:
    """The gradient of softplus where beta * x < threshold, by torch 1.8.1: it compared x itself with the threshold."""
    builder = ProgramBuilder("nn.functional.softplus")
    x = builder.tensor("x", np.array([0.2]), requires_grad=True)
    result = builder.call("nn.functional.softplus", x, beta=4, threshold=1)
    builder.output(result)
    builder.backward(result, np.ones(1))
    blob = builder.blob()
    sides = ((WRONG,), (RIGHT,))
    mismatch = Mismatch("d", "gradient", "gradient", "x", (), sides, ())
    finding = Finding(
        "0123abcd", "nn.functional.softplus", "gradient", "upstream", (WRONG,), "strong", None,
        sides, digest(blob), (mismatch,), (),
    )  # fmt: skip
    outcomes = tuple(TargetOutcome(label, "torch", Outcome("ok")) for label in (WRONG, RIGHT))
    targets = tuple(TargetFacts(label=label, framework="torch") for label in (WRONG, RIGHT))
    written = write_finding(
        folder, FindingBundle(finding, blob, outcomes), targets, RunFacts(opdiff="0.1.0")
    )
    return folder / written.row.folder


def run(folder: Path, store: EnvironmentStore, out: Path, versions: str) -> Bisection:
    workshop = Workshop(store, Progress(Console(stderr=True), quiet=True))
    return bisect(folder, "torch", versions, workshop, index, out)


def test_the_release_in_which_a_gradient_became_right(
    environment_store: EnvironmentStore, tmp_path: Path
) -> None:
    folder, out = softplus_finding(tmp_path / "report"), tmp_path / "answers.json"
    found = run(folder, environment_store, out, "1.8..2.13")
    change = found.change
    assert change is not None
    assert (str(change.before), str(change.after), change.came) == ("1.8.1", "1.9.0", False)
    values = {probe.release: probe.seen for probe in found.probes}
    # d/dx log(1 + exp(4 x)) / 4 = 1 / (1 + exp(-4 x)), which is 0.68997... at 0.2; 1.8.1 says sigmoid(... ) otherwise
    assert "0.689974481127612" in values["1.9.0"]
    assert "0.68997" not in values["1.8.1"]
    assert len(found.probes) < len(INSTALLED)  # 1.8.1, 2.13.0 and the middles between them
    assert found.lines[-1].endswith("torch no longer has the fault since 1.9.0")
    # The answers are kept: a second bisection asks no release again.
    before = out.read_bytes()
    again = run(folder, environment_store, out, "1.8..2.13")
    assert (again.change, out.read_bytes()) == (change, before)


def test_a_release_that_cannot_be_had_is_gone_around(
    environment_store: EnvironmentStore, tmp_path: Path
) -> None:
    folder = softplus_finding(tmp_path / "report")
    found = run(folder, environment_store, tmp_path / "a.json", "1.7.1,1.8.1,1.9.0")
    assert [(p.release, p.answer) for p in found.probes] == [
        ("1.7.1", "cannot run"),  # no recipe
        ("1.8.1", "has"),
        ("1.9.0", "has not"),
    ]


def test_a_file_of_another_finding_is_refused(
    environment_store: EnvironmentStore, tmp_path: Path
) -> None:
    folder, out = softplus_finding(tmp_path / "report"), tmp_path / "answers.json"
    out.write_text('{"program": "other", "kind": "value", "framework": "torch"}')
    with pytest.raises(OpDiffError, match="another finding"):
        run(folder, environment_store, out, "1.8.1,1.9.0")
