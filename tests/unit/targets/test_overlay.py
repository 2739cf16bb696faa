"""Overlays of a small package, run by the tests' own interpreter."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from pathlib import Path

import pytest
from memory_changeset import MemoryChangeSet

from bot.targets.environment import Environment
from bot.targets.folder_cache import FolderCache
from bot.targets.overlay import Overlay, SourceRoots, find_overlay, make_overlay
from bot.targets.target import TargetError

ROOTS = {"python/flow": "flow", "flow": "flow"}
SOURCES = {
    "__init__.py": "VALUE = 'released'\n",
    "nn/__init__.py": "",
    "nn/relu.py": "def relu(x):\n    return max(x, 0)\n\n\n\n\ndef other():\n    return 'released'\n",
    "nn/gone.py": "HERE = True\n",
    "framework/tensor.py": "SIZE = 1\n",
    "framework/__init__.py": "",
}


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    root = tmp_path / "site-packages"
    for name, text in SOURCES.items():
        path = root / "flow" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "flow/_C.so").write_bytes(b"\x7fELF")
    (root / "flow.libs").mkdir()
    (root / "other").mkdir()
    compileall.compile_dir(root, quiet=2)
    return root


def repository(**changed: str | None) -> MemoryChangeSet:
    """A repository with OneFlow's layout; keyword ``nn__relu`` stands for ``nn/relu.py``."""
    base = {f"python/flow/{name}": text for name, text in SOURCES.items()}
    base["flow/core/kernel.cpp"] = "int x;\n"
    head = dict(base)
    for key, text in changed.items():
        path = f"python/flow/{key.replace('__', '/')}.py"
        if text is None:
            del head[path]
        else:
            head[path] = text
    return MemoryChangeSet(base, head)


def overlay(changes: MemoryChangeSet, site_packages: Path, digest: str = "release") -> Overlay:
    release = Environment(
        "flow==1.0", "flow", Path(sys.executable), "release", digest, readable=(site_packages,)
    )
    return make_overlay(
        release,
        changes,
        site_packages=site_packages,
        source_roots=ROOTS,
        cache=FolderCache(site_packages.parent / "overlays"),
    )


def run(made: Overlay, site_packages: Path, code: str) -> str:
    """What a program prints that has the overlay in front of the release."""
    path = os.pathsep.join(map(str, [*made.environment.import_paths, site_packages]))
    environ = {"PYTHONPATH": path, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_patch_is_visible_and_the_release_untouched(site_packages: Path) -> None:
    before = snapshot(site_packages)
    made = overlay(repository(nn__relu="def relu(x):\n    return 'patched'\n"), site_packages)
    assert snapshot(site_packages) == before
    code = "import flow, flow.nn.relu as r, flow.framework.tensor as t; print(r.relu(1), flow.VALUE, t.SIZE)"
    assert run(made, site_packages, code) == "patched released 1"
    assert snapshot(site_packages) == before  # the run wrote no bytecode there either
    assert made.patched == ("flow/nn/relu.py",)
    assert made.rejected == made.not_carried == made.removed == ()
    assert made.environment.origin == "overlay"
    assert made.environment.spec == "flow@pr"
    assert made.environment.readable[0] == site_packages
    assert made.environment.readable[-1] == made.environment.import_paths[0]


def test_only_the_patched_file_is_real(site_packages: Path) -> None:
    made = overlay(repository(nn__relu="patched = 1\n"), site_packages)
    folder = made.environment.import_paths[0]
    real = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    assert [str(p.relative_to(folder)) for p in real] == ["flow/nn/relu.py"]
    assert (folder / "flow/framework").is_symlink()
    assert (folder / "flow/_C.so").resolve() == site_packages / "flow/_C.so"
    assert (folder / "flow.libs").is_symlink()
    assert not (folder / "other").exists()


def test_no_stale_bytecode_for_a_patched_file_even_of_the_same_size_and_time(
    site_packages: Path,
) -> None:
    released = site_packages / "flow/framework/tensor.py"
    made = overlay(repository(framework__tensor="SIZE = 2\n"), site_packages)
    patched = made.environment.import_paths[0] / "flow/framework/tensor.py"
    os.utime(patched, ns=(released.stat().st_atime_ns, released.stat().st_mtime_ns))
    assert patched.stat().st_size == released.stat().st_size
    assert run(made, site_packages, "import flow.framework.tensor as t; print(t.SIZE)") == "2"
    cached = made.environment.import_paths[0] / "flow/framework/__pycache__"
    assert not cached.is_symlink()
    assert any(path.is_symlink() for path in cached.glob("__init__.*"))


def test_added_and_deleted_files(site_packages: Path) -> None:
    changes = repository(nn__gone=None, nn__extra__added="NEW = 3\n")
    made = overlay(changes, site_packages)
    assert made.removed == ("flow/nn/gone.py",)
    code = """
import importlib.util
import flow.nn.extra.added as a
print(a.NEW, importlib.util.find_spec("flow.nn.gone"))
"""
    assert run(made, site_packages, code) == "3 None"
    assert (site_packages / "flow/nn/gone.py").is_file()


def test_a_renamed_file_carries_its_change(site_packages: Path) -> None:
    changes = repository(nn__relu=None, nn__relu6="def relu(x):\n    return 6\n")
    changes.renames = {"python/flow/nn/relu.py": "python/flow/nn/relu6.py"}
    made = overlay(changes, site_packages)
    assert made.patched == ("flow/nn/relu6.py",)
    assert made.removed == ("flow/nn/relu.py",)
    assert run(made, site_packages, "import flow.nn.relu6 as r; print(r.relu(1))") == "6"


def test_a_hunk_that_does_not_apply_is_reported_and_the_other_applies(site_packages: Path) -> None:
    path = site_packages / "flow/nn/relu.py"
    path.write_text(path.read_text().replace("'released'", "'released later'"))
    head = SOURCES["nn/relu.py"].replace("max(x, 0)", "'patched'").replace("'released'", "'mine'")
    made = overlay(repository(nn__relu=head), site_packages)
    assert [(hunk.file, hunk.line) for hunk in made.rejected] == [("python/flow/nn/relu.py", 8)]
    assert made.environment.notes == (
        "does not apply: python/flow/nn/relu.py:8: the release differs from the base here, its own lines stay",
    )
    code = "import flow.nn.relu as r; print(r.relu(1), r.other())"
    assert run(made, site_packages, code) == "patched released later"


def test_what_an_overlay_cannot_carry_is_listed(site_packages: Path) -> None:
    changes = repository(nn__only_in_base="x = 2\n")
    changes.base["python/flow/nn/only_in_base.py"] = "x = 1\n"
    changes.head |= {
        "flow/core/kernel.cpp": "int y;\n",
        "tools/gen.py": "",
        "python/flow/a.yaml": "",
    }
    made = overlay(changes, site_packages)
    assert {(entry.file, entry.why) for entry in made.not_carried} == {
        ("flow/core/kernel.cpp", "not a Python file: only a build could carry it"),
        ("python/flow/a.yaml", "not a Python file: only a build could carry it"),
        ("python/flow/nn/only_in_base.py", "the release has no such file"),
        ("tools/gen.py", "not installed with the package"),
    }
    assert [entry.file for entry in made.not_carried if entry.missed] == [
        "python/flow/nn/only_in_base.py"
    ]
    assert made.patched == ()


def test_a_file_added_by_both_sides(site_packages: Path) -> None:
    (site_packages / "flow/nn/both.py").write_text("x = 'released'\n")
    same = overlay(repository(nn__both="x = 'released'\n"), site_packages)
    assert same.patched == same.rejected == ()
    other = overlay(repository(nn__both="x = 'mine'\n"), site_packages)
    assert [hunk.file for hunk in other.rejected] == ["python/flow/nn/both.py"]
    assert run(other, site_packages, "import flow.nn.both as b; print(b.x)") == "released"


def test_the_digest_follows_release_and_content(site_packages: Path) -> None:
    one = overlay(repository(nn__relu="x = 1\n"), site_packages)
    two = overlay(repository(nn__relu="x = 2\n"), site_packages)
    other_release = overlay(repository(nn__relu="x = 1\n"), site_packages, digest="another")
    again = overlay(repository(nn__relu="x = 1\n"), site_packages)
    digests = {m.environment.digest for m in (one, two, other_release)}
    assert len(digests) == 3
    assert again == one


def test_an_overlay_made_before_is_found_by_its_digest(site_packages: Path) -> None:
    made = overlay(repository(nn__relu="x = 1\n"), site_packages).environment
    release = Environment(
        "flow==1.0", "flow", made.python, "release", "release", readable=(site_packages,)
    )
    cache = FolderCache(site_packages.parent / "overlays")
    assert find_overlay(release, made.digest, cache) == made
    for digest in ("0" * 32, "", "../release", ".locks"):
        assert find_overlay(release, digest, cache) is None


def test_a_plain_folder_of_installed_sources_maps_by_the_packages_name() -> None:
    plain = SourceRoots(ROOTS, ["flow/__init__.py", "flow/nn/relu.py"])
    assert str(plain.installed("flow/nn/relu.py")) == "flow/nn/relu.py"
    repo = SourceRoots(ROOTS, ["python/flow/__init__.py", "flow/core/x.py", "flow/__init__.py"])
    assert str(repo.installed("python/flow/nn/relu.py")) == "flow/nn/relu.py"
    assert repo.installed("flow/core/x.py") is None


@pytest.mark.parametrize("path", ["../flow/x.py", "/flow/x.py", "flow/../../x.py", "flowing/x.py"])
def test_paths_that_leave_the_package_are_no_part_of_it(path: str) -> None:
    assert SourceRoots(ROOTS, ["flow/__init__.py"]).installed(path) is None


def test_another_projects_tree_is_refused(site_packages: Path) -> None:
    changes = MemoryChangeSet({"a.py": "1"}, {"a.py": "2"})
    with pytest.raises(TargetError, match=r"no flow sources here.*python/flow/__init__\.py"):
        overlay(changes, site_packages)


def test_a_file_that_becomes_a_package(site_packages: Path) -> None:
    changes = repository(nn__gone=None)
    changes.head["python/flow/nn/gone/__init__.py"] = "HERE = 'package'\n"
    made = overlay(changes, site_packages)
    assert run(made, site_packages, "import flow.nn.gone as g; print(g.HERE)") == "package"


def test_a_file_name_that_is_not_utf8_is_carried_and_shown(site_packages: Path) -> None:
    """As git hands it over: bytes that are no UTF-8 as lone surrogates, which no report could hold."""
    changes = repository(**{"nn__\udce9": "x = 1\n"})
    changes.head["flow/core/\udcff.cpp"] = "int y;\n"
    made = overlay(changes, site_packages)
    assert made.patched == ("flow/nn/\\xe9.py",)
    assert [entry.file for entry in made.not_carried] == ["flow/core/\\xff.cpp"]
    (folder,) = made.environment.import_paths
    assert (Path(os.fsdecode(bytes(folder / "flow/nn"))) / "\udce9.py").read_text() == "x = 1\n"
