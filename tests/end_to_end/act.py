"""Whole workflows, run by nektos/act on this host, as GitHub's runner would.

What lies outside is stood in for: the checkout and artifact actions by folders (``standin_actions``), the server by
:mod:`tests.fake_github`. The workflows, ``action.yml`` and its scripts are the real ones.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command import ROOT

STANDINS = Path(__file__).parent / "standin_actions"
ACTION = "somebody/opdiff"
"""The repository that the action lies in, for the workflows that call it."""


def pinned_actions() -> dict[str, str]:
    """``OWNER/NAME@SHA`` -> the stand-in's folder, for every version that the project's workflows name."""
    found: dict[str, str] = {}
    for file in (ROOT / "action.yml", *(ROOT / ".github" / "workflows").glob("opdiff-*.yml")):
        for name, ref in re.findall(r"uses: ([\w-]+/[\w-]+)@([0-9a-f]{40})", file.read_text()):
            standin = STANDINS / name.partition("/")[2]
            found[f"{name}@{ref}"] = str(standin if standin.is_dir() else STANDINS / "not-here")
    return found


@dataclass(frozen=True)
class Ran:
    """What a run of a workflow did."""

    code: int
    log: str
    artifacts: Path

    def artifact(self, name: str) -> bytes:
        """An artifact as the server stores it: a zip of its files."""
        folder, buffer = self.artifacts / name, io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file():
                    archive.write(file, str(file.relative_to(folder)))
        return buffer.getvalue()


@dataclass(frozen=True)
class Act:
    """Runs workflows of a repository's folder. ``repositories`` holds ``owner/name`` folders for checkouts."""

    scratch: Path
    repositories: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def run(
        self,
        workflow: Path,
        event_name: str,
        event: Mapping[str, Any],
        *,
        folder: Path,
        repository: str,
        sha: str,
        token: str,
        api_url: str,
        run_id: int,
        attempt: int = 1,
        seconds: float = 1200,
    ) -> Ran:
        """Run one workflow file for an event; what it uploads lies below ``artifacts`` afterwards."""
        home = self.scratch / f"run-{run_id}-{attempt}-{event_name}"
        artifacts = home / "artifacts"
        artifacts.mkdir(parents=True)
        (home / "event.json").write_text(json.dumps(event))
        variables = {
            "GITHUB_API_URL": api_url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": repository,
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "GITHUB_SHA": sha,
            "STANDIN_ARTIFACTS": str(artifacts),
            "STANDIN_REPOSITORIES": str(self.repositories),
            **self.variables,
        }
        words = [str(Path(sys.executable).with_name("act")), event_name]
        words += ["--workflows", str(workflow), "--eventpath", str(home / "event.json")]
        words += ["--platform", "ubuntu-latest=-self-hosted", "--platform", "gpu=-self-hosted"]
        words += ["--no-skip-checkout", "--no-cache-server", "--pull=false", "--concurrent-jobs=1"]
        words += ["--action-cache-path", str(home / "act"), "--env-file", "", "--secret-file", ""]
        words += ["--secret", "GITHUB_TOKEN"]
        words += [f"--local-repository={ACTION}@v1={ROOT}"]
        words += [f"--local-repository={name}={at}" for name, at in pinned_actions().items()]
        words += [f"--env={name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "GITHUB_TOKEN": token, "HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        return Ran(done.returncode, done.stdout, artifacts)
