"""The files that an image is made of and started with agree with each other and with where they come from."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# moby/profiles, seccomp/v0.2.3, seccomp/default.json, with its keys sorted and no blanks
MOBYS_PROFILE = "9da637d2ab0a204fcbd91bd88f1be9e004a3acab61c571a9f5b8870e588a17d2"
# bubblewrap(1): namespaces, mounts, a root of its own, a name for the host. Each was taken away in turn, and it failed.
BUBBLEWRAPS_CALLS = ["clone", "mount", "pivot_root", "sethostname", "umount2", "unshare"]


def pins(name: str) -> set[str]:
    text = (ROOT / name).read_text()
    return set(re.findall(r"^[A-Za-z0-9._-]+==[^\s\\;]+", text, re.MULTILINE))


def test_the_image_installs_what_is_tested() -> None:
    image = pins("requirements-image.lock")
    assert len(image) > 20
    assert image - pins("requirements.lock") == set()
    assert not any(pin.startswith(("pytest==", "pyright==", "ruff==")) for pin in image)


def test_every_base_is_pinned_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()
    pinned = dict(re.findall(r"^ARG (\w+)=python:\S+@sha256:([0-9a-f]{64})$", text, re.MULTILINE))
    stages = re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE)
    for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert base in stages or base.strip("${}") in pinned, base


def test_the_system_call_profile_is_dockers_and_bubblewraps_calls() -> None:
    profile = json.loads((ROOT / ".github/action/seccomp.json").read_text())
    added = profile["syscalls"].pop()
    assert (added["names"], added["action"]) == (BUBBLEWRAPS_CALLS, "SCMP_ACT_ALLOW")
    rest = json.dumps(profile, sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(rest).hexdigest() == MOBYS_PROFILE
