from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bot.targets.envs_cli import app


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_an_empty_cache_is_no_error(tmp_path: Path) -> None:
    listed = call("list", "--cache-dir", tmp_path)
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "no environments in" in listed.stderr
    assert call("doctor", "--cache-dir", tmp_path).exit_code == 0
    pruned = call("prune", "--cache-dir", tmp_path)
    assert (pruned.exit_code, pruned.stdout) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["prepare", "torhc==2.13.0"], "error: no recipe for 'torhc': did you mean torch?"),
        (["prepare", "torch"], "error: torch: name one version, as in torch==2.13.0"),
        (["path", "torch==2.13.0"], "error: torch==2.13.0 is not prepared: opdiff envs prepare"),
        (["path", "nothing.whl"], "error: no wheel matches nothing.whl"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_1(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    result = call(*arguments, "--cache-dir", tmp_path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(says)
    assert len(result.stderr.splitlines()) == 1


def test_the_exit_code_reaches_the_shell(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from bot.cli import main; main()", "envs", "path", "torhc==1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: no recipe for 'torhc': did you mean torch?\n"


def test_doctor_names_what_is_wrong_on_stdout(tmp_path: Path) -> None:
    result = call("doctor", "torch==2.13.0", "--cache-dir", tmp_path)
    assert result.exit_code == 1
    assert result.stdout == (
        "WRONG  torch==2.13.0: not prepared: opdiff envs prepare 'torch==2.13.0'\n"
    )


def test_one_bad_name_does_not_stop_the_others(tmp_path: Path) -> None:
    result = call("prepare", "torch", "oneflow", "--cache-dir", tmp_path)
    assert result.exit_code == 1
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [" torch", " oneflow"]
