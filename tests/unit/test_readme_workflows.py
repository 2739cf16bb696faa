"""The workflows that the README tells people to copy are valid, pinned, least privileged, and name inputs that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("\n## In CI\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
OWN = re.compile(r"OWNER/opdiff(?:/(\.github/workflows/[\w-]+\.yml))?@COMMIT")
LEVELS = {"none": 0, "read": 1, "write": 2}


def reusable(path: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def workflows() -> list[dict[str, Any]]:
    """The blocks that are whole workflows; YAML 1.1 reads the key "on" as true."""
    return [document for block in BLOCKS if True in (document := yaml.safe_load(block))]


def jobs() -> list[dict[str, Any]]:
    found = [job for block in BLOCKS for job in (yaml.safe_load(block).get("jobs") or {}).values()]
    assert len(found) == 6
    return found


def steps() -> list[dict[str, Any]]:
    return [step for job in jobs() for step in job.get("steps", ())]


def test_every_setup_is_there() -> None:
    headings = re.findall(r"^### (.+)$", SECTION, re.MULTILINE)
    assert headings[:4] == [
        "A public repository with forks and GPU runners",
        "Container jobs",
        "A private repository, in one stage",
        "GitHub Enterprise Server",
    ]
    assert len(BLOCKS) == 7


def test_a_token_has_no_permission_that_a_job_does_not_ask_for() -> None:
    assert len(workflows()) == 5
    for document in workflows():
        assert document["permissions"] == {}
        assert all("permissions" in job for job in document["jobs"].values())


def test_a_job_may_do_what_the_called_workflow_needs_and_nothing_more() -> None:
    for job in jobs():
        called = OWN.fullmatch(job.get("uses", ""))
        if not called:
            continue
        needed: dict[str, str] = {}
        for inner in reusable(called[1])["jobs"].values():
            for name, level in inner["permissions"].items():
                needed[name] = max(level, needed.get(name, "none"), key=LEVELS.__getitem__)
        assert job["permissions"] == needed, job["uses"]


def calls() -> list[dict[str, Any]]:
    """Jobs and steps that call OpDiff."""
    found = [*jobs(), *steps(), *(yaml.safe_load(b) for b in BLOCKS if "jobs:" not in b)]
    return [call for call in found if call.get("uses", "").startswith("OWNER/")]


def test_inputs_exist() -> None:
    assert len(calls()) == 8
    for call in calls():
        called = OWN.fullmatch(call["uses"])
        assert called, call["uses"]
        workflow = called[1] and reusable(called[1])[True]["workflow_call"]
        inputs = (workflow or ACTION)["inputs"]
        assert set(call.get("with", {})) <= set(inputs), call["uses"]


def test_other_actions_are_pinned_and_keep_no_token() -> None:
    for step in steps():
        used = step.get("uses", "")
        if used.startswith("OWNER/"):
            continue
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used), step
        if used.startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_no_expression_stands_in_a_script() -> None:
    """What a pull request names (a branch, a title) would be a part of the script."""
    for path in (ROOT / "action.yml", *(ROOT / ".github/workflows").glob("*.yml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        inner = (
            document["runs"]["steps"]
            if "runs" in document
            else [step for job in document["jobs"].values() for step in job.get("steps", ())]
        )
        for step in inner:
            assert "${{" not in step.get("run", ""), f"{path.name}: {step}"


@pytest.mark.parametrize("number", range(5))
def test_a_linter_of_workflows_finds_nothing(number: int, tmp_path: Path) -> None:
    text = [block for block in BLOCKS if True in yaml.safe_load(block)][number]
    file = tmp_path / "workflow.yml"
    file.write_text(OWN.sub(lambda use: use[0].replace("COMMIT", "0" * 40), text))
    linter = Path(sys.executable).with_name("actionlint")
    done = subprocess.run([linter, "-no-color", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def rows(heading: str) -> list[list[str]]:
    table = SECTION.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_input_is_documented_as_it_is() -> None:
    documented = {
        row[0].strip("| `"): (row[2].strip("`"), row[3].rstrip(" |")) for row in rows("Inputs")
    }
    real = {
        name: (str(given.get("default", "")), " ".join(given["description"].split()))
        for name, given in ACTION["inputs"].items()
    }
    assert documented == real


def test_every_output_is_documented_as_it_is() -> None:
    documented = {row[0].strip("| `"): row[1].rstrip(" |") for row in rows("Outputs")}
    real = {name: " ".join(o["description"].split()) for name, o in ACTION["outputs"].items()}
    assert documented == real


def test_workflows_read_only_outputs_that_the_action_has() -> None:
    """A composite action's steps have outputs that nobody outside sees unless they are declared."""
    for path in (ROOT / ".github/workflows").glob("opdiff-*.yml"):
        text = path.read_text(encoding="utf-8")
        for job in yaml.safe_load(text)["jobs"].values():
            own = {
                s["id"] for s in job["steps"] if s.get("uses", "").startswith("./") and "id" in s
            }
            for step, output in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", str(job)):
                assert step in own, f"{path.name}: {step}"
                assert output in ACTION["outputs"], f"{path.name}: {output}"
