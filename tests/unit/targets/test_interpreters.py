from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bot.targets.interpreters import InterpreterFinder, probe, seen_by


class Machine:
    """Interpreters by path, as their probes would answer; everything else does not start."""

    def __init__(self, **answers: str) -> None:
        self.answers: dict[str, str] = {}
        self.started: list[list[str]] = []
        self.uv: dict[str, str] = {}

    def add(self, path: Path, version: str | None, bits: str = "64", name: str = "cpython") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if version is not None:
            self.answers[str(path)] = f"{version}\n{bits}\n{name}\n{path}\n{path.parent.parent}\n"
        return path

    def run(self, command: Sequence[str], seconds: float) -> str | None:
        self.started.append(list(command))
        if command[0].endswith("/uv"):
            return self.uv.get(command[2])
        return self.answers.get(command[0])


def finder(machine: Machine, tmp_path: Path, *folders: Path) -> InterpreterFinder:
    path = ":".join(str(folder) for folder in folders)
    return InterpreterFinder({"PATH": path}, tmp_path / "home", tmp_path / "uv", machine.run)


def test_a_shim_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    machine = Machine()
    shim = machine.add(tmp_path / "shims/python3.10", None)
    real = machine.add(tmp_path / "usr/python3.10", "3.10.13")
    found = finder(machine, tmp_path, shim.parent, real.parent).find("3.10")
    assert found is not None
    assert (found.path, found.version) == (real, "3.10.13")


def test_pyenv_is_looked_into_behind_a_broken_shim(tmp_path: Path) -> None:
    machine = Machine()
    shim = machine.add(tmp_path / "shims/python3.8", None)
    real = machine.add(tmp_path / "home/.pyenv/versions/3.8.18/bin/python3.8", "3.8.18")
    found = finder(machine, tmp_path, shim.parent).find("3.8")
    assert found is not None
    assert found.path == real


def test_another_version_behind_the_name_is_not_taken(tmp_path: Path) -> None:
    machine = Machine()
    liar = machine.add(tmp_path / "bin/python3.11", "3.12.1")
    assert finder(machine, tmp_path, liar.parent).find("3.11") is None


def test_only_64_bit_cpython_counts(tmp_path: Path) -> None:
    machine = Machine()
    assert probe(machine.add(tmp_path / "a", "3.11.7", bits="32"), machine.run) is None
    assert probe(machine.add(tmp_path / "b", "3.11.7", name="pypy"), machine.run) is None
    assert probe(machine.add(tmp_path / "c", "3.11.7"), machine.run) is not None


def test_uvs_own_interpreter_is_the_last_that_is_looked_for(tmp_path: Path) -> None:
    machine = Machine()
    managed = machine.add(tmp_path / "managed/bin/python3.9", "3.9.18")
    machine.uv["find"] = f"{managed}\n"
    found = finder(machine, tmp_path).find("3.9")
    assert found is not None
    assert found.path == managed


def test_nothing_is_downloaded_while_a_later_choice_is_here(tmp_path: Path) -> None:
    machine = Machine()
    here = machine.add(tmp_path / "bin/python3.8", "3.8.18")
    found = finder(machine, tmp_path, here.parent).first(["3.9", "3.8"])
    assert found is not None
    assert found.path == here
    assert not [command for command in machine.started if "install" in command]


def test_a_missing_version_is_downloaded_in_order_of_preference(tmp_path: Path) -> None:
    machine = Machine()
    managed = machine.add(tmp_path / "managed/bin/python3.9", "3.9.18")

    def run(command: Sequence[str], seconds: float) -> str | None:
        if "install" in command:
            machine.uv["find"] = str(managed)
            machine.started.append(list(command))
            return ""
        return machine.run(command, seconds)

    search = InterpreterFinder({"PATH": ""}, tmp_path, tmp_path / "uv", run)
    found = search.first(["3.9", "3.8"])
    assert found is not None
    assert found.path == managed
    assert [c[-1] for c in machine.started if "install" in c] == ["3.9"]
    forbidden = InterpreterFinder({"PATH": ""}, tmp_path, tmp_path / "uv", run, download=False)
    machine.uv.clear()
    assert forbidden.first(["3.9"]) is None


def test_what_must_be_seen_follows_the_links_of_a_version_manager(tmp_path: Path) -> None:
    real = tmp_path / "python/cpython-3.11.9"
    (real / "bin").mkdir(parents=True)
    (real / "bin/python3.11").touch()
    (real / "bin/python").symlink_to("python3.11")
    minor = tmp_path / "python/cpython-3.11"
    minor.symlink_to(real.name)
    shortcut = tmp_path / "bin/python3.11"
    shortcut.parent.mkdir()
    shortcut.symlink_to("../python/cpython-3.11/bin/python")
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(shortcut)
    seen = seen_by(environment / "bin/python", environment, minor)
    assert seen == (environment, minor, real, shortcut)


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert set(seen_by(tmp_path / "a")) == {tmp_path / "a", tmp_path / "b"}
