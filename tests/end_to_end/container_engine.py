"""A container engine of this machine, and the image built with it as the action builds it."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest
from end_to_end.standin_base import StandinError, make_standin

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "localhost/opdiff-test"
PREPARED = "/opt/opdiff/cache"  # as in the Dockerfile
ENVIRONMENTS = ("torch==2.13.0", "oneflow==0.9.0")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CONFIGURATION = """
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""Podman asks for limits that only a privileged host may raise, for systemd, and for its journal."""


class EngineError(Exception):
    """What the engine said when it failed."""


@dataclass(frozen=True)
class Engine:
    """Docker or podman, and the environment that it is started with."""

    name: str
    environment: dict[str, str]

    def __call__(self, *arguments: str | Path, seconds: float = 600) -> str:
        """Run it; its output. Raises EngineError when it fails."""
        done = self.run(*arguments, seconds=seconds)
        if done.returncode != 0:
            raise EngineError(
                f"{self.name} {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        return done.stdout.strip()

    def run(
        self, *arguments: str | Path, seconds: float = 600, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it, whatever its exit code; ``variables`` are added to its own environment."""
        return subprocess.run(
            [self.name, *map(str, arguments)],
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    @property
    def is_podman(self) -> bool:
        """Whether its options are podman's own where the two differ."""
        return self.name == "podman"


def find_engine(scratch: Path) -> Engine:
    """Docker where it runs, else podman as root. Skips the test where there is none."""
    docker = Engine("docker", dict(os.environ))
    if shutil.which("docker") and docker.run("info", seconds=60).returncode == 0:
        return docker
    if not shutil.which("podman") or os.geteuid() != 0:
        pytest.skip(
            "no container engine: a running Docker, or root and `apt-get install podman runc`"
        )
    configuration = scratch / "containers.conf"
    limits = {
        "files": _limit(resource.RLIMIT_NOFILE, 65536),
        "processes": _limit(resource.RLIMIT_NPROC, 16384),
    }
    configuration.write_text(CONFIGURATION.format(**limits))
    podman = Engine("podman", {**os.environ, "CONTAINERS_CONF": str(configuration)})
    if podman.run("info", seconds=60).returncode != 0:
        pytest.skip("podman is installed, but `podman info` fails on this machine")
    return podman


def _limit(which: int, wanted: int) -> int:
    """At most half of the hard limit: the engine's own processes count towards it."""
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard // 2)


@dataclass(frozen=True)
class Image:
    """The built image, its engine, and a folder of prepared environments that stands in for the image's own."""

    engine: Engine
    name: str
    prepared: Path

    @property
    def prepared_options(self) -> list[str]:
        """Options of ``run`` that put the prepared environments where the image has them."""
        return ["--volume", f"{self.prepared}:{PREPARED}:ro"] if self.prepared.name else []


def build_image(engine: Engine, scratch: Path) -> Image:
    """The project's image, built unless this very content was built before, without environments.

    Environments take most of a build's time and of an image's bytes, and change seldom: they are made by the image itself,
    into a folder of this user's that later runs find again. ``OPDIFF_TEST_IMAGE`` names an image that was built whole.
    """
    whole = os.environ.get("OPDIFF_TEST_IMAGE")
    if whole:
        return Image(engine, whole, Path())
    bases = {"BASE": _base(engine, "3.11", scratch), "PYTHON310": _base(engine, "3.10", scratch)}
    tag = f"{IMAGE}:{content_digest(bases.values())}"
    if not engine("images", "--quiet", tag):
        engine("build", *_build_options(engine, bases, scratch), "--tag", tag, ROOT, seconds=1200)
        for other in engine("images", "--format", "{{.Repository}}:{{.Tag}}", IMAGE).split():
            if other != tag:  # of older content; one that runs is kept by the engine
                engine.run("rmi", other)
    base_id = engine("images", "--quiet", "--no-trunc", bases["BASE"]).splitlines()[0]
    folder = hashlib.sha256(f"{base_id} {tag.partition(':')[0]}".encode()).hexdigest()[:12]
    prepared = platformdirs.user_cache_path("opdiff", appauthor=False) / "image" / folder
    image = Image(engine, tag, prepared)
    _prepare(image)
    return image


def content_digest(bases: Iterable[str]) -> str:
    """Of everything that the image is made of."""
    state = hashlib.sha256(repr(list(bases)).encode())
    files = [
        ROOT / name
        for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "requirements-image.lock")
    ]
    files += sorted(
        path for path in (ROOT / "bot").rglob("*") if path.is_file() and path.suffix != ".pyc"
    )
    for path in files:
        state.update(
            f"{path.relative_to(ROOT)}\0{path.stat().st_mode:o}\0".encode() + path.read_bytes()
        )
    return state.hexdigest()[:16]


def _base(engine: Engine, version: str, scratch: Path) -> str:
    """The Dockerfile's own base where it can be pulled, else a stand-in."""
    argument = "BASE" if version == "3.11" else "PYTHON310"
    found = re.search(rf"^ARG {argument}=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    pinned = found[1]
    if engine("images", "--quiet", pinned) or engine.run("pull", "--quiet", pinned).returncode == 0:
        return pinned
    if not engine.is_podman:
        pytest.skip(f"{pinned} cannot be pulled, and a stand-in is made with podman only")
    try:
        return make_standin(version, engine, scratch)
    except (StandinError, EngineError) as error:
        pytest.skip(f"{pinned} cannot be pulled, and there is no stand-in: {error}")


def _build_options(engine: Engine, bases: dict[str, str], scratch: Path) -> list[str]:
    options = ["--network", "host", "--build-arg", "ENVIRONMENTS="]
    if _wheel_folders():  # a wheel at hand instead of PyTorch's own index
        options += ["--build-arg", "TORCH_BACKEND="]
    for name, value in bases.items():
        options += ["--build-arg", f"{name}={value}"]
    if engine.is_podman:
        options += ["--isolation", "chroot", "--pull=never", "--format", "docker"]
    settings = scratch / "settings"
    names = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT")
    local = ("file:", "/")  # a folder of this machine is not there inside
    lines = [
        f"export {name}='{os.environ[name]}'\n"
        for name in names
        if os.environ.get(name) and not os.environ[name].startswith(local)
    ]
    settings.write_text("".join(lines))
    options += ["--secret", f"id=settings,src={settings}"]
    if CERTIFICATES.exists():
        options += ["--secret", f"id=certificates,src={CERTIFICATES}"]
    return options


def _wheel_folders() -> list[Path]:
    folders = [Path(part) for part in os.environ.get("PIP_FIND_LINKS", "").split()]
    return [folder for folder in folders if folder.is_dir()]


def _prepare(image: Image) -> None:
    """Environments and the list of ops, by the image itself."""
    image.prepared.mkdir(parents=True, exist_ok=True)
    uv_cache = platformdirs.user_cache_path("uv", appauthor=False)
    uv_cache.mkdir(parents=True, exist_ok=True)
    options = [
        "--rm", "--user", "0:0", "--network", "host", "--volume", f"{image.prepared}:{PREPARED}",
        "--volume", f"{uv_cache}:/uv", "--env", "UV_CACHE_DIR=/uv", "--env", "UV_LINK_MODE=copy",
        "--env", "OPDIFF_PREPARED=", "--env", f"XDG_CACHE_HOME={PREPARED}",
    ]  # fmt: skip
    if CERTIFICATES.exists():
        options += [
            "--volume",
            f"{CERTIFICATES}:/certificates:ro",
            "--env",
            "SSL_CERT_FILE=/certificates",
        ]
    wheels = {folder: f"/wheels{number}" for number, folder in enumerate(_wheel_folders())}
    for folder, place in wheels.items():
        options += ["--volume", f"{folder}:{place}:ro"]
    if wheels:
        options += ["--env", f"UV_FIND_LINKS={','.join(wheels.values())}"]
    for command in (["envs", "prepare", *ENVIRONMENTS], ["ops", "--quiet"]):
        print(f"in the image: opdiff {' '.join(command)}", file=sys.__stderr__, flush=True)
        image.engine("run", *options, image.name, *command, seconds=1200)
    # What root made in there is root's, also where this test runs as somebody else.
    readable = ["--entrypoint", "chmod", image.name, "-R", "a+rX", f"{PREPARED}/opdiff/programs"]
    image.engine("run", *options, *readable)
