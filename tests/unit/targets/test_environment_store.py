"""The store with interpreters and frameworks that are made up; nothing is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bot.targets.code_digest import code_digest
from bot.targets.environment_spec import read_requirement
from bot.targets.environment_store import EnvironmentStore
from bot.targets.resolve import resolve
from bot.targets.starting import Ran
from bot.targets.stored_environment import DESCRIPTION, LAYOUT, Description, key_of
from bot.targets.target import TargetError

NOW = 1_800_000_000.0  # seconds since the epoch
DAY = 86400.0


class Interpreters:
    """Answers what a started interpreter would: a look's JSON by its path, one answer to every import."""

    def __init__(self) -> None:
        self.looks: dict[str, Ran] = {}
        self.imported = Ran(0, '{"version": "2.13.0", "numpy": "2.0"}')
        self.environs: list[dict[str, str]] = []

    def start(self, command: Sequence[str], environ: Mapping[str, str], seconds: float) -> Ran:
        self.environs.append(dict(environ))
        if "find_spec" in command[3]:
            return self.looks.get(command[0], Ran(None, errors="Exec format error"))
        return self.imported

    def add(
        self, path: Path, packages: Sequence[str], version: str = "3.11.7", numpy: bool = True
    ) -> str:
        """An interpreter in ``path`` with these packages; its spec."""
        site = path / "lib/site-packages"
        for package in packages:
            (site / package).mkdir(parents=True)
        python = path / "bin/python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        said = {
            "version": version,
            "prefix": str(path),
            "base_prefix": str(path),
            "packages": {name: str(site / name) for name in packages},
            "numpy": numpy,
            "path": [str(site)],
        }
        self.looks[str(python)] = Ran(0, json.dumps(said))
        return f"python={python}"


@pytest.fixture
def interpreters() -> Interpreters:
    return Interpreters()


@pytest.fixture
def store(tmp_path: Path, interpreters: Interpreters) -> EnvironmentStore:
    return EnvironmentStore(
        tmp_path / "cache",
        start=interpreters.start,
        environ={"PATH": "/usr/bin", "GITHUB_TOKEN": "secret"},
    )


def put(store: EnvironmentStore, spec: str, last_use: float = NOW, **changed: object) -> Path:
    """A stored environment that looks whole."""
    build = read_requirement(spec, store.recipes)
    key = key_of(build, build.pythons[0], None)
    folder = store.cache_dir / "envs" / key
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    described = Description(
        layout=LAYOUT,
        spec=spec,
        framework=build.recipe.framework,
        package=build.recipe.import_name,
        origin="release",
        version=str(build.version),
        python="3.11.7",
        base_prefix=folder,
        digest="d1",
        library_paths=("lib/cuda",),
        installed=(),
    ).model_copy(update=changed)
    (folder / DESCRIPTION).write_text(described.model_dump_json())
    lock = store.cache_dir / "envs/.locks" / f"{key}.use"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    os.utime(lock, (last_use, last_use))
    return folder


def refused(store: EnvironmentStore, spec: str) -> str:
    with pytest.raises(TargetError) as caught:
        resolve(spec, store)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_what_is_stored_is_given_back_without_any_install(store: EnvironmentStore) -> None:
    folder = put(store, "torch==2.13.0")
    environment = store.prepare("torch==2.13.0")
    assert environment.python == folder / "bin/python"
    assert environment.library_paths == (folder / "lib/cuda",)
    assert environment.readable == (folder,)
    assert (environment.framework, environment.digest) == ("torch", "d1")
    assert store.find("torch==2.13.1") is None


def test_a_prepared_cache_is_looked_at_after_the_users_own_and_left_alone(
    tmp_path: Path, interpreters: Interpreters
) -> None:
    image = EnvironmentStore(tmp_path / "image", start=interpreters.start, environ={})
    torch, oneflow = put(image, "torch==2.13.0", 0), put(image, "oneflow==0.9.0", 0)
    environ = {"OPDIFF_PREPARED": str(image.cache_dir)}
    store = EnvironmentStore(tmp_path / "own", start=interpreters.start, environ=environ)
    assert store.prepare("torch==2.13.0").python == torch / "bin/python"
    mine = put(store, "torch==2.13.0")
    assert store.prepare("torch==2.13.0").python == mine / "bin/python"
    assert [entry.name for entry in store.stored()] == [
        "torch==2.13.0", "oneflow==0.9.0", "torch==2.13.0",
    ]  # fmt: skip
    assert [diagnosis.ok for diagnosis in store.doctor(["oneflow==0.9.0"])] == [True]
    store.close()
    assert store.prune(None) == ("torch==2.13.0",)
    assert not mine.exists()
    assert torch.is_dir()
    assert oneflow.is_dir()


def test_keys_differ_by_what_is_installed(store: EnvironmentStore) -> None:
    build = read_requirement("torch==2.13.0", store.recipes)
    other = read_requirement("torch==2.13.0+cu126", store.recipes)
    keys = {
        key_of(build, "3.11", None),
        key_of(build, "3.12", None),
        key_of(build, "3.11", "cpu"),
        key_of(other, "3.11", None),
    }
    assert len(keys) == 4
    assert all(key.startswith("torch-2.13.0") for key in keys)


def test_a_torch_backend_makes_another_environment(store: EnvironmentStore) -> None:
    put(store, "torch==2.13.0")
    put(store, "oneflow==0.9.0")
    for other in (
        EnvironmentStore(store.cache_dir, torch_backend="cu126", environ={}),
        EnvironmentStore(store.cache_dir, environ={"UV_TORCH_BACKEND": "cu126"}),
    ):
        assert other.find("torch==2.13.0") is None
        assert other.find("oneflow==0.9.0") is not None


def test_an_interpreter_is_recognised_by_what_it_has(
    store: EnvironmentStore, interpreters: Interpreters, tmp_path: Path
) -> None:
    spec = interpreters.add(tmp_path / "mine", ["oneflow"])
    (tmp_path / "mine/lib/site-packages/oneflow-0.9.0.dist-info").mkdir()
    (tmp_path / "mine/lib/site-packages/nvidia/cudnn/lib").mkdir(parents=True)
    environment = resolve(f"{spec}:cpu", store).environment
    assert (environment.framework, environment.origin) == ("oneflow", "interpreter")
    assert environment.library_paths == (tmp_path / "mine/lib/site-packages/nvidia/cudnn/lib",)
    assert environment.readable == (tmp_path / "mine",)


def test_an_interpreters_digest_follows_its_package(
    store: EnvironmentStore, interpreters: Interpreters, tmp_path: Path
) -> None:
    spec = interpreters.add(tmp_path / "mine", ["torch"])
    before = store.prepare(spec).digest
    assert store.prepare(spec).digest == before
    (tmp_path / "mine/lib/site-packages/torch/functional.py").write_text("x = 1\n")
    assert store.prepare(spec).digest != before


def test_a_build_folder_may_hold_links_to_nothing(
    store: EnvironmentStore, interpreters: Interpreters, tmp_path: Path
) -> None:
    spec = interpreters.add(tmp_path / "mine", ["torch"])
    before = store.prepare(spec).digest
    (tmp_path / "mine/lib/site-packages/torch/_C.so").symlink_to(tmp_path / "not built")
    assert store.prepare(spec).digest == before


def test_an_interpreter_with_two_frameworks_needs_a_word(
    store: EnvironmentStore, interpreters: Interpreters, tmp_path: Path
) -> None:
    spec = interpreters.add(tmp_path / "mine", ["torch", "oneflow"])
    assert "it has torch and oneflow: say which" in refused(store, f"{spec}:cpu")
    chosen = resolve(f"{spec}:cpu:framework=oneflow", store)
    assert chosen.environment.framework == "oneflow"


def test_numpy_is_the_framework_only_where_that_is_said(
    store: EnvironmentStore, interpreters: Interpreters, tmp_path: Path
) -> None:
    both = interpreters.add(tmp_path / "both", ["jax", "numpy"])
    assert resolve(f"{both}:cpu", store).environment.framework == "jax"
    assert resolve(f"{both}:cpu:framework=numpy", store).environment.framework == "numpy"


def test_bad_interpreters(
    store: EnvironmentStore, interpreters: Interpreters, tmp_path: Path
) -> None:
    old = interpreters.add(tmp_path / "old", ["torch"], version="3.7.16")
    bare = interpreters.add(tmp_path / "bare", [])
    no_numpy = interpreters.add(tmp_path / "nonumpy", ["torch"], numpy=False)
    broken = tmp_path / "broken"
    broken.touch()
    for spec, says in (
        (old, "Python 3.7.16 is older than 3.8"),
        (bare, "it has no framework (torch, oneflow, "),
        (no_numpy, "it has no NumPy"),
        (f"python={broken}", "does not start: Exec format error"),
        (f"python={tmp_path}/missing", "no such file"),
    ):
        assert says in refused(store, f"{spec}:cpu")


def test_bad_targets_are_refused_with_near_names(store: EnvironmentStore) -> None:
    for spec, says in (
        ("torhc==2.13.0:cpu", "did you mean torch?"),
        ("oneflwo@pr:cpu", "did you mean oneflow?"),
        ("torch@base", "write torch@pr"),
        ("torch@pr", "there is no candidate"),
        ("torch", "name one version"),
    ):
        assert says in refused(store, spec)


def test_the_candidate_is_untrusted_and_of_its_framework(store: EnvironmentStore) -> None:
    put(store, "torch==2.13.0")
    candidate = store.prepare("torch==2.13.0")
    target = resolve("torch@pr:cuda:compile", store, candidate)
    assert target.untrusted
    assert target.label == "torch@pr:cuda:compile"
    assert target.environment is candidate
    assert not resolve("torch==2.13.0", store, candidate).untrusted
    with pytest.raises(TargetError, match="the candidate is a build of torch"):
        resolve("oneflow@pr", store, candidate)


def test_doctor_says_ok_with_version_and_seconds(
    store: EnvironmentStore, interpreters: Interpreters
) -> None:
    put(store, "torch==2.13.0")
    times = iter([10.0, 12.5])
    (diagnosis,) = store.doctor(clock=lambda: next(times))
    assert diagnosis.ok
    assert diagnosis.says == "torch 2.13.0, NumPy 2.0, starts in 2.5 s"
    assert interpreters.environs[0]["LD_LIBRARY_PATH"].endswith("lib/cuda")
    assert "GITHUB_TOKEN" not in interpreters.environs[0]


@pytest.mark.parametrize(
    ("ran", "says"),
    [
        (
            Ran(1, errors="Traceback\nImportError: libcudnn.so.8: cannot open"),
            "import torch fails: ImportError: libcudnn.so.8: cannot open: opdiff",
        ),
        (Ran(-4), "died of SIGILL"),
        (Ran(None, timed_out=True), "no end after 240 s"),
        (Ran(0, "nonsense"), "ends without a word"),
    ],
)
def test_doctor_says_in_one_line_what_is_wrong_and_what_to_do(
    store: EnvironmentStore, interpreters: Interpreters, ran: Ran, says: str
) -> None:
    put(store, "torch==2.13.0")
    interpreters.imported = ran
    (diagnosis,) = store.doctor(["torch==2.13.0"])
    assert not diagnosis.ok
    assert says in diagnosis.says
    assert diagnosis.says.endswith(": opdiff envs prepare --again 'torch==2.13.0'")
    assert "\n" not in diagnosis.says


def test_doctor_on_what_is_damaged_missing_or_of_a_removed_python(
    store: EnvironmentStore,
) -> None:
    damaged = put(store, "torch==1.10.0")
    (damaged / DESCRIPTION).write_text("{")
    put(store, "torch==2.13.0", base_prefix=Path("/gone"))
    says = [d.says for d in store.doctor(["torch==1.10.0", "torch==2.13.0", "oneflow==0.9.0", "x"])]
    assert "missing or damaged: remove" in says[0]
    assert "its Python 3.11.7 in /gone is gone: opdiff envs prepare --again" in says[1]
    assert says[2] == "not prepared: opdiff envs prepare 'oneflow==0.9.0'"
    assert "no recipe for 'x'" in says[3]
    assert not any(d.ok for d in store.doctor())


def test_doctor_does_not_start_a_pull_requests_wheel(
    store: EnvironmentStore, interpreters: Interpreters
) -> None:
    put(store, "torch==2.13.0", origin="wheel")
    (diagnosis,) = store.doctor()
    assert diagnosis.ok
    assert "not started" in diagnosis.says
    assert interpreters.environs == []


class TestPoisoned:
    """What somebody else may have left in the cache."""

    @pytest.mark.parametrize("path", ["/root/lib", "../../elsewhere", "lib/../../x"])
    def test_library_folders_outside(self, store: EnvironmentStore, path: str) -> None:
        put(store, "torch==2.13.0", library_paths=(path,))
        assert store.find("torch==2.13.0") is None

    def test_a_link_for_a_folder(self, store: EnvironmentStore, tmp_path: Path) -> None:
        folder = put(store, "torch==2.13.0")
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        assert store.find("torch==2.13.0") is None

    def test_a_link_or_a_pipe_for_a_description(
        self, store: EnvironmentStore, tmp_path: Path
    ) -> None:
        folder = put(store, "torch==2.13.0")
        (folder / DESCRIPTION).rename(tmp_path / "elsewhere")
        (folder / DESCRIPTION).symlink_to(tmp_path / "elsewhere")
        assert store.find("torch==2.13.0") is None
        (folder / DESCRIPTION).unlink()
        os.mkfifo(folder / DESCRIPTION)
        assert store.find("torch==2.13.0") is None
        assert not next(store.doctor()).ok

    def test_a_description_without_end(self, store: EnvironmentStore) -> None:
        folder = put(store, "torch==2.13.0")
        with (folder / DESCRIPTION).open("ab") as file:
            file.write(b" " * (2 << 20))
        assert store.find("torch==2.13.0") is None

    @pytest.fixture
    def made(self, store: EnvironmentStore) -> Path:
        """An environment with code, whose digest is written down."""
        folder = put(store, "torch==2.13.0")
        site = folder / "lib/python3.11/site-packages"
        (site / "torch").mkdir(parents=True)
        (site / "torch/functional.py").write_text("x = 1\n")
        (site / "torch/libtorch.so.1").write_text("1")
        (site / "torch/libtorch.so").symlink_to("libtorch.so.1")
        put_code(folder)
        assert store.find("torch==2.13.0") is not None
        return site

    def test_edited_code_is_named_once_and_by_doctor(
        self, store: EnvironmentStore, made: Path
    ) -> None:
        (made / "torch/functional.py").write_text("x = 22\n")
        fresh = EnvironmentStore(store.cache_dir, start=store._start)
        with pytest.raises(
            TargetError, match="were changed after it was made: opdiff envs"
        ) as caught:
            fresh.prepare("torch==2.13.0")
        assert "\n" not in str(caught.value)
        (diagnosis,) = fresh.doctor()
        assert (diagnosis.ok, "were changed" in diagnosis.says) == (False, True)

    @pytest.mark.parametrize("change", ["add", "remove", "relink", "start", "pipe"])
    def test_other_changes(self, store: EnvironmentStore, made: Path, change: str) -> None:
        match change:
            case "add":
                (made / "evil.py").touch()
            case "remove":
                (made / "torch/libtorch.so.1").unlink()
            case "relink":
                (made / "torch/libtorch.so").unlink()
                (made / "torch/libtorch.so").symlink_to("/etc/passwd")
            case "start":
                (made / "evil.pth").write_text("import os")
            case _:
                os.mkfifo(made / "torch/pipe.py")
        with pytest.raises(TargetError, match="were changed"):
            EnvironmentStore(store.cache_dir).find("torch==2.13.0")

    def test_what_runs_leave_is_no_change(self, store: EnvironmentStore, made: Path) -> None:
        (made / "torch/__pycache__").mkdir()
        (made / "torch/__pycache__/functional.cpython-311.pyc").touch()
        (made / "torch/cache.json").touch()
        os.utime(made / "torch/functional.py", (1, 1))
        assert EnvironmentStore(store.cache_dir).find("torch==2.13.0") is not None


def put_code(folder: Path) -> None:
    """Write down an environment's code as it is now."""
    described = Description.model_validate_json((folder / DESCRIPTION).read_bytes())
    described = described.model_copy(update={"code": code_digest(folder)})
    (folder / DESCRIPTION).write_text(described.model_dump_json())


def test_prune_removes_what_was_not_used_for_long(store: EnvironmentStore) -> None:
    old = put(store, "torch==1.10.0", NOW - 31 * DAY)
    new = put(store, "torch==2.13.0", NOW - 29 * DAY)
    unfinished = store.cache_dir / "envs/.building/torch-1.9.0.abc"
    unfinished.mkdir(parents=True)
    assert store.prune(30, NOW) == ("torch==1.10.0", "1 unfinished folder")
    assert not old.exists()
    assert not unfinished.exists()
    assert new.is_dir()
    assert store.prune(30, NOW) == ()
    assert store.prune(None, NOW) == ("torch==2.13.0",)


def test_an_environment_in_use_is_not_made_again(store: EnvironmentStore) -> None:
    put(store, "torch==2.13.0")
    store.prepare("torch==2.13.0")
    with pytest.raises(TargetError, match="a running process uses it"):
        EnvironmentStore(store.cache_dir).prepare("torch==2.13.0", again=True)


def test_prune_leaves_what_a_run_uses(store: EnvironmentStore) -> None:
    folder = put(store, "torch==2.13.0")
    store.prepare("torch==2.13.0")
    other = EnvironmentStore(store.cache_dir)
    assert other.prune(None) == ()
    assert folder.is_dir()
    store.close()
    assert other.prune(None) == ("torch==2.13.0",)
