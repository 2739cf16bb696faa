"""Environments made for real by uv: twice at once, killed in the middle, broken afterwards.

A small package stands for a framework where the framework's size would only cost time; its recipe is a row like any
other.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml

from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.inspection import import_framework
from bot.targets.recipes import load_recipes
from bot.targets.resolve import resolve
from bot.targets.target import TargetError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

PREPARE = """
import sys
from pathlib import Path
from bot.targets.environment_store import EnvironmentStore
from bot.targets.recipes import load_recipes
store = EnvironmentStore(
    Path(sys.argv[1]),
    progress=lambda line: print(line, flush=True),
    recipes=load_recipes(Path(sys.argv[2])),
)
print("PYTHON", store.prepare(sys.argv[3]).python, flush=True)
"""


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """A table in which the pure-Python package ``expecttest`` is the framework."""
    row = {
        "framework": "expecttest",
        "distribution": "expecttest",
        "versions": ">=0.2",
        "python": [PYTHON],
        "requirements": ["numpy"],
        "source": "a package of one file",
    }
    path = tmp_path / "recipes.yml"
    path.write_text(yaml.safe_dump({"recipes": [row]}))
    return path


def preparing(cache: Path, recipes: Path, spec: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREPARE, str(cache), str(recipes), spec],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def made_python(output: str) -> Path:
    return Path(output.strip().splitlines()[-1].removeprefix("PYTHON "))


def visible(cache: Path) -> list[str]:
    return [path.name for path in (cache / "envs").glob("*") if path.name[0] != "."]


def test_two_processes_prepare_one_environment_at_once(tmp_path: Path, recipes: Path) -> None:
    both = [preparing(tmp_path / "cache", recipes, "expecttest==0.3.0") for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    pythons = {made_python(output) for output in outputs}
    assert len(pythons) == 1
    assert import_framework(pythons.pop(), "expecttest").numpy
    assert sum("Installed" in output for output in outputs) == 1
    assert len(visible(tmp_path / "cache")) == 1


def test_kill_9_in_mid_install_leaves_nothing_half_made(tmp_path: Path, recipes: Path) -> None:
    cache = tmp_path / "cache"
    for words in ("preparing", "Resolved", "compiling", "importing"):
        process = preparing(cache, recipes, "expecttest==0.3.0")
        assert process.stdout is not None
        for line in process.stdout:
            if words in line:
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, words
        assert visible(cache) == [], words
    store = EnvironmentStore(cache, recipes=load_recipes(recipes))
    environment = store.prepare("expecttest==0.3.0")
    assert import_framework(environment.python, "expecttest").numpy
    assert list((cache / "envs/.building").iterdir()) == []


def test_ctrl_c_in_mid_install_leaves_nothing_at_all(tmp_path: Path, recipes: Path) -> None:
    cache = tmp_path / "cache"
    process = preparing(cache, recipes, "expecttest==0.3.0")
    assert process.stdout is not None
    for line in process.stdout:
        if "Resolved" in line or "Installed" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert visible(cache) == []
    assert list((cache / "envs/.building").iterdir()) == []


def test_an_environment_is_whole_after_its_rename_and_not_writable_by_others(
    tmp_path: Path, recipes: Path
) -> None:
    store = EnvironmentStore(tmp_path / "cache", recipes=load_recipes(recipes))
    python = store.prepare("expecttest==0.3.0").python
    folder = python.parent.parent
    code = "import sys, expecttest; print(sys.prefix, expecttest.__file__, expecttest.__cached__)"
    said = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    prefix, file, cached = said.stdout.split()
    assert Path(prefix) == folder
    assert Path(file).is_relative_to(folder)
    assert Path(cached).is_file()
    assert all(path.name.startswith("python") for path in (folder / "bin").iterdir())
    open_to_others = [
        path
        for path in folder.rglob("*")
        if not path.is_symlink() and path.is_dir() and path.stat().st_mode & 0o022
    ]
    assert open_to_others == []


def test_doctor_and_again_on_an_environment_that_was_broken(tmp_path: Path, recipes: Path) -> None:
    store = EnvironmentStore(tmp_path / "cache", recipes=load_recipes(recipes))
    environment = store.prepare("expecttest==0.3.0")
    (diagnosis,) = store.doctor(["expecttest==0.3.0"])
    assert diagnosis.ok, diagnosis.says
    package = store.site_packages(environment) / "expecttest"
    init = package / "__init__.py"
    init.unlink()  # the file is shared with uv's cache: take it away, never write to it
    init.write_text("raise ImportError('libmissing.so.1: cannot open shared object file')\n")
    (diagnosis,) = store.doctor()
    assert not diagnosis.ok
    assert diagnosis.says == (
        "files were changed after it was made: opdiff envs prepare --again 'expecttest==0.3.0'"
    )
    with (
        EnvironmentStore(tmp_path / "cache", recipes=load_recipes(recipes)) as other,
        pytest.raises(TargetError, match="were changed after it was made"),
    ):
        other.prepare("expecttest==0.3.0")
    store.prepare("expecttest==0.3.0", again=True)
    (diagnosis,) = store.doctor()
    assert diagnosis.ok, diagnosis.says


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("expecttest==0.99.99", "no version of expecttest==0.99.99"),
        ("expecttest==0.1.0", "no recipe for this version"),
    ],
)
def test_what_cannot_be_installed_is_one_line_and_leaves_nothing(
    tmp_path: Path, recipes: Path, spec: str, says: str
) -> None:
    store = EnvironmentStore(tmp_path / "cache", recipes=load_recipes(recipes))
    with pytest.raises(TargetError) as caught:
        store.prepare(spec)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert store.stored() == ()


def make_wheel(folder: Path, name: str, files: dict[str, str], tag: str = "py3-none-any") -> Path:
    """A minimal wheel with these files."""
    info = f"{name}-1.0.dist-info"
    entries = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = ""
    for path, text in entries.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    entries[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    wheel = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in entries.items():
            archive.writestr(path, text)
    return wheel


def test_preparing_a_wheel_runs_none_of_its_code(tmp_path: Path, recipes: Path) -> None:
    trace = tmp_path / "ran"
    write = f"open({str(trace)!r}, 'a').write('x')"
    wheel = make_wheel(
        tmp_path,
        "expecttest",
        {"expecttest/__init__.py": f"{write}\n", "run.pth": f"import builtins; {write}\n"},
    )
    store = EnvironmentStore(tmp_path / "cache", recipes=load_recipes(recipes))
    environment = store.prepare(str(tmp_path / "*.whl"))
    assert environment.origin == "wheel"
    assert all(diagnosis.ok for diagnosis in store.doctor())
    assert not trace.exists()
    subprocess.run([environment.python, "-c", "import expecttest"], check=True)
    assert len(trace.read_text()) >= 2  # it is installed: both run once someone starts it
    wheel.unlink()
    make_wheel(tmp_path, "expecttest", {"expecttest/__init__.py": "VALUE = 2\n"})
    assert store.prepare(str(tmp_path / "*.whl")).digest != environment.digest


def test_a_checkouts_settings_for_uv_are_not_obeyed(
    tmp_path: Path, recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uv.toml").write_text("no-index = true\nfind-links = ['/nonexistent']\n")
    monkeypatch.chdir(tmp_path)
    cache = tmp_path / "cache"
    cache.mkdir()
    store = EnvironmentStore(
        tmp_path.parent / f"{tmp_path.name}-cache", recipes=load_recipes(recipes)
    )
    assert store.prepare("expecttest==0.3.0").framework == "expecttest"


def test_the_shipped_recipes_give_frameworks_that_start(
    environment_store: EnvironmentStore,
    torch_environment: Environment,
    oneflow_environment: Environment,
    old_torch_environment: Environment,
) -> None:
    specs = [e.spec for e in (torch_environment, oneflow_environment, old_torch_environment)]
    diagnoses = list(environment_store.doctor(specs))
    assert [d.ok for d in diagnoses] == [True, True, True], diagnoses
    for diagnosis, version in zip(diagnoses, ("2.13.0", "0.9.0", "1.8.1"), strict=True):
        assert version in diagnosis.says


@pytest.mark.parametrize(
    "name", ["torch_environment", "oneflow_environment", "old_torch_environment"]
)
def test_arrays_go_in_and_out(name: str, request: pytest.FixtureRequest) -> None:
    """NumPy and the framework fit each other: a wrong NumPy imports well and fails here."""
    environment: Environment = request.getfixturevalue(name)
    code = f"import numpy, {environment.framework} as f; print(f.from_numpy(numpy.arange(3.0)).numpy().sum())"
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    variables["LD_LIBRARY_PATH"] = ":".join(map(str, environment.library_paths))
    done = subprocess.run(
        [environment.python, "-I", "-c", code],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "3.0"


def test_an_interpreter_given_by_path(
    environment_store: EnvironmentStore, oneflow_environment: Environment
) -> None:
    target = resolve(f'python="{oneflow_environment.python}":cpu', environment_store)
    environment = target.environment
    assert (environment.framework, environment.origin) == ("oneflow", "interpreter")
    assert environment.library_paths == oneflow_environment.library_paths
    assert set(oneflow_environment.readable) <= set(environment.readable)


def test_a_prepared_environment_is_given_at_once(
    environment_store: EnvironmentStore, torch_environment: Environment
) -> None:
    begun = time.monotonic()
    assert environment_store.prepare("torch==2.13.0") == torch_environment
    assert time.monotonic() - begun < 1.0
