"""Overlays on the real releases, made from patches as `opdiff check --patch --source` reads them."""

from __future__ import annotations

import difflib
import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from bot.changes.patch_changeset import PatchChangeSet
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.overlay import Overlay
from bot.targets.resolve import overlay_of, resolve

SOFTPLUS = {
    "torch": ("torch/nn/functional.py", "def _canonical_mask("),
    "oneflow": ("oneflow/nn/modules/activation.py", "class Softplus("),
}


@pytest.fixture(params=["torch", "oneflow"])
def release(request: pytest.FixtureRequest) -> Environment:
    return request.getfixturevalue(f"{request.param}_environment")


def snapshot(folder: Path) -> str:
    """A digest over every file's path, size and time of change, and over every bytecode file."""
    state = hashlib.blake2b()
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink() and path.is_file():
            facts = path.stat()
            state.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return state.hexdigest()


def patched(
    store: EnvironmentStore, release: Environment, edits: dict[str, tuple[str, str]], folder: Path
) -> Overlay:
    """The overlay of edits (file -> text before and after) to the release's own sources."""
    patch = ""
    for file, (before, after) in edits.items():
        patch += "".join(
            difflib.unified_diff(
                before.splitlines(keepends=True),
                after.splitlines(keepends=True),
                f"a/{file}" if before else "/dev/null",
                f"b/{file}",
            )
        )
    path = folder / "change.patch"
    path.write_text(patch)
    return overlay_of(release, PatchChangeSet(path, store.site_packages(release)), store)


def run(environment: Environment, code: str) -> str:
    """What a program prints that has the environment's import paths in front."""
    front = "".join(f"sys.path.insert(0, {str(p)!r}); " for p in environment.import_paths)
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    variables["LD_LIBRARY_PATH"] = ":".join(map(str, environment.library_paths))
    command = [environment.python, "-s", "-c", f"import sys; {front}{code}"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_patched_function_is_seen_and_the_release_stays_as_it_was(
    environment_store: EnvironmentStore, release: Environment, tmp_path: Path
) -> None:
    file, anchor = SOFTPLUS[release.framework]
    packages = environment_store.site_packages(release)
    text = (packages / file).read_text()
    assert text.count(anchor) == 1
    edits = {
        file: (text, text.replace(anchor, f"OPDIFF_TEST = 'patched'\n\n\n{anchor}")),
        f"{release.framework}/opdiff_added.py": ("", "VALUE = 7\n"),
    }
    before = snapshot(packages / release.framework)
    overlay = patched(environment_store, release, edits, tmp_path)
    assert set(overlay.patched) == set(edits)
    assert overlay.rejected == overlay.not_carried == ()

    module = file.removesuffix(".py").replace("/", ".")
    name = release.framework
    code = (
        f"import {name}, {module} as m, {name}.opdiff_added as a;"
        f" print(m.OPDIFF_TEST, a.VALUE, {name}.nn.functional.softplus({name}.zeros(1)).item())"
    )
    said = run(overlay.environment, code).split()
    assert said[:2] == ["patched", "7"]
    assert float(said[2]) == pytest.approx(0.6931471805599453)  # log 2
    # Without PYTHONDONTWRITEBYTECODE the run above could have written bytecode through a link.
    assert snapshot(packages / release.framework) == before
    seen = run(release, f"import {module} as m; print(hasattr(m, 'OPDIFF_TEST'))")
    assert seen == "False"


def test_an_overlay_is_made_in_about_a_second_and_found_again_at_once(
    environment_store: EnvironmentStore, release: Environment, tmp_path: Path
) -> None:
    file, _ = SOFTPLUS[release.framework]
    text = (environment_store.site_packages(release) / file).read_text()
    edits = {file: (text, f"{text}\n# {time.time_ns()}\n")}
    begun = time.monotonic()
    first = patched(environment_store, release, edits, tmp_path)
    assert time.monotonic() - begun < 10  # a shared machine; alone it is under 1 s
    assert patched(environment_store, release, edits, tmp_path) == first
    target = resolve(f"{release.framework}@pr:cpu", environment_store, first)
    assert target.untrusted
    assert target.environment.origin == "overlay"


def test_a_hunk_written_against_another_version_is_reported(
    environment_store: EnvironmentStore, release: Environment, tmp_path: Path
) -> None:
    file, anchor = SOFTPLUS[release.framework]
    released = (environment_store.site_packages(release) / file).read_text()
    # The pull request's base: its file is the release's with other text around the anchor.
    base = released.replace(anchor, f"LATER = 1\n{anchor}")
    head = base.replace("LATER = 1\n", "LATER = 2\n") + "\nAT_THE_END = True\n"
    repository = tmp_path / "repository"
    root = "python/oneflow" if release.framework == "oneflow" else "torch"
    inner = file.partition("/")[2]
    for path, content in ((inner, base), ("__init__.py", "")):
        target = repository / root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    lines = difflib.unified_diff(
        base.splitlines(keepends=True),
        head.splitlines(keepends=True),
        f"a/{root}/{inner}",
        f"b/{root}/{inner}",
    )
    patch = tmp_path / "change.patch"
    patch.write_text("".join(lines))
    overlay = overlay_of(release, PatchChangeSet(patch, repository), environment_store)
    line = head.splitlines().index("LATER = 2") + 1
    assert [(h.file, h.line) for h in overlay.rejected] == [(f"{root}/{inner}", line)]
    assert f"{root}/{inner}:{line}" in overlay.environment.notes[-1]
    module = file.removesuffix(".py").replace("/", ".")
    said = run(
        overlay.environment, f"import {module} as m; print(m.AT_THE_END, hasattr(m, 'LATER'))"
    )
    assert said == "True False"
