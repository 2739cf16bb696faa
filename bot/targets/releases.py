"""Which releases of a framework there are, and which of them a range of versions means."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from packaging.version import InvalidVersion, Version

from bot.targets.installer import InstallError, find_uv, uv_environment
from bot.targets.recipes import RecipeBook
from bot.targets.target import TargetError

ASK_SECONDS: Final = 120.0
MAX_LISTED: Final = 500

Ask = Callable[[Sequence[str]], str]
"""Runs ``pip index versions`` with these arguments and gives what it prints; raises TargetError in one line."""


def ask_index(environ: Mapping[str, str]) -> Ask:
    """pip's own question to the user's package index, with pip run by uv."""

    def ask(arguments: Sequence[str]) -> str:
        try:
            command = [str(find_uv()), "tool", "run", "pip", "index", "versions", *arguments]
            done = subprocess.run(
                command, env=uv_environment(environ), capture_output=True, text=True,
                timeout=ASK_SECONDS, check=False,
            )  # fmt: skip
        except InstallError as error:
            raise TargetError(str(error)) from None
        except subprocess.TimeoutExpired:
            raise TargetError(
                f"the package index gave no answer in {ASK_SECONDS:.0f} s: name the versions, as in "
                "--versions 1.8.1,1.9.0"
            ) from None
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise TargetError(
                f"the package index cannot be asked ({said[:300]}): name the versions, as in "
                "--versions 1.8.1,1.9.0"
            )
        return done.stdout

    return ask


def released(framework: str, recipes: RecipeBook, ask: Ask) -> tuple[Version, ...]:
    """The final releases of a framework that a recipe can install here, oldest first. Raises TargetError.

    A release counts when there is a wheel for a Python version of its recipe's.
    """
    rows = recipes.named(framework)
    if not rows:
        raise TargetError(f"no recipe for {framework!r}: {recipes.near_names(framework)}")
    found: set[Version] = set()
    offered: dict[tuple[str, str], tuple[Version, ...]] = {}
    for row in rows:
        for python in row.python[:2]:
            key = row.distribution, python
            if key not in offered:
                offered[key] = _offered(*key, ask)
            found.update(version for version in offered[key] if row.serves(version))
    return tuple(sorted(found))


def _offered(distribution: str, python: str, ask: Ask) -> tuple[Version, ...]:
    printed = ask([distribution, "--python-version", python, "--only-binary", ":all:", "--json"])
    try:
        listed = json.loads(printed.strip().splitlines()[-1])["versions"]
        versions = [Version(str(text)) for text in listed[:MAX_LISTED]]
    except (ValueError, KeyError, TypeError, IndexError, InvalidVersion):
        raise TargetError(f"the package index's answer on {distribution} cannot be read") from None
    return tuple(v for v in versions if not (v.is_prerelease or v.is_devrelease))


def named_versions(text: str) -> tuple[Version, ...] | None:
    """``1.8.1,1.9.0`` -> those, oldest first; None for a range ``1.8..2.13``. Raises TargetError."""
    if ".." in text:
        return None
    try:
        versions = {Version(part.strip()) for part in text.split(",") if part.strip()}
    except InvalidVersion:
        versions = set[Version]()
    if len(versions) < 2:
        raise TargetError(
            f"--versions {text!r} is no range and no list: write 1.8..2.13 or 1.8.1,1.9.0,1.10.0"
        )
    return tuple(sorted(versions))


def in_range(text: str, releases: Iterable[Version]) -> tuple[Version, ...]:
    """The releases in ``1.8..2.13``, both ends with all their patch releases. Raises TargetError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)*)\s*\.\.\s*(\d+(?:\.\d+)*)\s*", text)
    if match is None:
        raise TargetError(f"--versions {text!r} is no range: write it as 1.8..2.13")
    first, last = Version(match[1]), Version(match[2])
    size = len(last.release)
    found = tuple(
        sorted(v for v in releases if first <= v and v.release[:size] <= last.release[:size])
    )
    if len(found) < 2:
        raise TargetError(
            f"--versions {text}: {len(found)} release{'' if len(found) == 1 else 's'} of that range can be installed"
        )
    return found


def minor_releases(
    releases: Sequence[Version], installed: Collection[Version] = ()
) -> tuple[Version, ...]:
    """One release of each minor version, oldest first: one that is already installed, else the first."""
    chosen: dict[tuple[int, int], Version] = {}
    for version in sorted(releases, key=lambda v: (v not in installed, v)):
        chosen.setdefault((version.major, version.minor), version)
    return tuple(sorted(chosen.values()))
