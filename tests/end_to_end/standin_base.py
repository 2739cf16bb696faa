"""A stand-in for the images that the Dockerfile begins with, for machines that reach no image registry.

Debian's own packages, unpacked by ``mmdebstrap``, and an interpreter of this machine in ``/usr/local``, where the official
Python images have theirs: enough alike for the Dockerfile to build on it unchanged. Never to be pushed anywhere.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

NAME = "localhost/opdiff-standin-python"
DEBIAN = "localhost/opdiff-standin-debian"
RELEASE = "bookworm"
PACKAGES = (  # what the official image installs, and what its interpreter links to
    "ca-certificates", "netbase", "tzdata", "libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libncursesw6", "libnsl2",
    "libreadline8", "libsqlite3-0", "libssl3", "libtirpc3", "libuuid1", "zlib1g",
)  # fmt: skip
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "config-3*", "pkgconfig",
    "*.a", "site-packages",
)  # fmt: skip

Podman = Callable[..., str]
"""Runs podman with these arguments, for at most ``seconds``, and gives its output."""


class StandinError(Exception):
    """Why there is no stand-in, in one line."""


def interpreter_prefix(version: str) -> Path:
    """The folder of a CPython ``version`` (``3.11``) of this machine. Raises StandinError."""
    places = [Path(name) for name in filter(None, [shutil.which(f"python{version}")])]
    places += sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    for python in reversed(places):
        asked = [str(python), "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        prefix = Path(done.stdout.strip() or "/nowhere")
        if done.returncode == 0 and prefix != Path("/usr") and (prefix / "lib").is_dir():
            return prefix
    raise StandinError(f"no Python {version} with a folder of its own on this machine")


def make_standin(version: str, podman: Podman, scratch: Path) -> str:
    """The name of a stand-in image for Python ``version``, made when it is not there yet. Raises StandinError."""
    name = f"{NAME}:{version}"
    if podman("images", "--quiet", name):
        return name
    prefix = interpreter_prefix(version)
    folder = scratch / f"python{version}"
    _copy_interpreter(prefix, folder, version)
    (folder / "Containerfile").write_text(
        f"FROM {_debian(podman, scratch)}\nCOPY usr /usr\nRUN ldconfig && python --version && python -m pip --version\n"
    )
    podman(
        "build", "--quiet", "--isolation", "chroot", "--network", "host", "--pull=never", "--tag", name, folder
    )  # fmt: skip
    return name


def _debian(podman: Podman, scratch: Path) -> str:
    if not podman("images", "--quiet", DEBIAN):
        archive = scratch / "debian.tar"
        included = f"--include={','.join(PACKAGES)}"
        _run(["mmdebstrap", "--variant=minbase", "--quiet", included, RELEASE, str(archive)], 900)
        podman("import", "--quiet", archive, DEBIAN)
        archive.unlink()
    return DEBIAN


def _copy_interpreter(prefix: Path, folder: Path, version: str) -> None:
    """The interpreter as the official images build it: in /usr/local, finding its library beside itself."""
    local = folder / "usr/local"
    shutil.copytree(prefix / "lib", local / "lib", symlinks=True, ignore=LEFT_OUT)
    packages = local / f"lib/python{version}/site-packages"
    packages.mkdir()
    found = [prefix / f"lib/python{version}/site-packages/pip"]
    found += sorted(found[0].parent.glob("pip-*.dist-info"))
    for path in found:
        shutil.copytree(path, packages / path.name)
    binaries = local / "bin"
    binaries.mkdir()
    python = binaries / f"python{version}"
    shutil.copy2(prefix / f"bin/python{version}", python)
    for link in ("python3", "python"):
        (binaries / link).symlink_to(python.name)
    _run(["patchelf", "--set-rpath", "$ORIGIN/../lib", str(python)], 60)


def _run(command: Sequence[str], seconds: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StandinError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        raise StandinError(f"{command[0]}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
