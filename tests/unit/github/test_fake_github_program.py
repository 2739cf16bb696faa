"""The fake GitHub as a program of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import requests
from fake_github.server import FakeGitHub
from fake_github.state import State
from fake_scene import BASE, archive, headers, set_up

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def program(file: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "tests.fake_github", "--state", str(file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def written_scene(folder: Path) -> Path:
    with FakeGitHub() as github:
        set_up(github)
    file = folder / "state.json"
    file.write_text(github.state.model_dump_json(), "utf-8")
    return file


def test_the_program_keeps_its_state_in_a_file(tmp_path: Path) -> None:
    file = written_scene(tmp_path)
    with program(file) as (url, process):
        address = f"{url}/repos/{BASE}/issues/1/comments"
        assert requests.post(address, json={"body": "x"}, headers=headers()).status_code == 201
        run_id = State.model_validate_json(file.read_text("utf-8")).runs[0].id
        given = {"repository": BASE, "run_id": run_id, "name": "more"}
        data = archive(a_txt="a")
        made = requests.post(f"{url}/_fake/artifacts", params=given, data=data).json()
        fault = {"way": "503", "method": "GET"}
        assert requests.post(f"{url}/_fake/faults", json=fault).status_code == 200
        artifact = f"{url}/repos/{BASE}/actions/artifacts/{made['id']}/zip"
        assert requests.get(artifact, headers=headers()).status_code == 503
        assert requests.get(artifact, headers=headers()).content == data
        log = requests.get(f"{url}/_fake/log").json()
        assert [it["status"] for it in log] == [201, 503, 302, 200]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    state = State.model_validate_json(file.read_text("utf-8"))
    assert [it.body for it in state.comments] == ["x"]
    assert [it.name for it in state.artifacts] == ["opdiff", "more"]


def test_the_program_says_at_its_end_what_broke_the_description(tmp_path: Path) -> None:
    with program(written_scene(tmp_path)) as (url, process):
        requests.get(f"{url}/repos/{BASE}/nothing", headers=headers())
        state = requests.get(f"{url}/_fake/state").json()
        state["issues"] = "none"
        answer = requests.put(f"{url}/_fake/state", data=json.dumps(state))
        assert (answer.status_code, "issues" in answer.json()["error"]) == (400, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 1
        assert process.stderr
        assert "/nothing is not in the vendored description" in process.stderr.read()
