"""Overlay: the released package with a pull request's own diff applied to its Python files.

A folder in front on the import path, of symbolic links to the release; only patched files and the folders above them
are real. The released files stay untouched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from bot.changes.changeset import ChangedFile, ChangeSet
from bot.changes.file_text import printable_path
from bot.targets.environment import Environment
from bot.targets.folder_cache import FolderCache
from bot.targets.merge import MergeError, three_way
from bot.targets.overlay_tree import Patches, lay_overlay
from bot.targets.target import TargetError

LAYOUT = b"opdiff overlay 1"
_NOT_RELEASED = "the release has no such file"


@dataclass(frozen=True)
class RejectedHunk:
    """A hunk that does not apply to the release: the repository's file, its first head line (1-based), and why."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


@dataclass(frozen=True)
class NotCarried:
    """A changed file that the overlay does not hold, and why. ``missed``: it is a package's Python, which runs."""

    file: str
    why: str
    missed: bool = False


@dataclass(frozen=True)
class Overlay:
    """A candidate made from a release. ``patched`` and ``removed`` are paths below site-packages."""

    environment: Environment
    patched: tuple[str, ...]
    removed: tuple[str, ...]
    rejected: tuple[RejectedHunk, ...]
    not_carried: tuple[NotCarried, ...]


@dataclass(frozen=True)
class _Plan:
    patches: Patches
    rejected: tuple[RejectedHunk, ...]
    not_carried: tuple[NotCarried, ...]


class SourceRoots:
    """Maps a repository's paths to the package's: ``python/oneflow/nn/x.py`` -> ``oneflow/nn/x.py``.

    Of several folders for one package, the one whose ``__init__.py`` is in the tree counts: OneFlow's repository has
    its C++ in ``oneflow/``, while a folder of installed sources has its Python there.
    """

    def __init__(self, roots: Mapping[str, str], tree: Iterable[str]) -> None:
        files = set(tree)
        self._roots: dict[str, str] = {}
        taken: set[str] = set()
        for folder, package in roots.items():
            if package not in taken and f"{folder}/__init__.py" in files:
                taken.add(package)
                self._roots[folder] = package

    def __bool__(self) -> bool:
        return bool(self._roots)

    def installed(self, path: str) -> PurePosixPath | None:
        """Where a repository's file is installed, below site-packages; None when it is no part of a package."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            return None
        for folder, package in self._roots.items():
            if pure.is_relative_to(folder):
                return PurePosixPath(package) / pure.relative_to(folder)
        return None


def make_overlay(
    release: Environment,
    changes: ChangeSet,
    *,
    site_packages: Path,
    source_roots: Mapping[str, str],
    cache: FolderCache,
    spec: str | None = None,
) -> Overlay:
    """Make, or find, the overlay of a release and a diff.

    ``source_roots`` maps folders of the repository to packages, in order of preference. ``spec`` names the
    environment (``torch@pr`` by default). Raises TargetError when the tree does not hold the framework's packages or
    nothing can be merged at all.
    """
    roots = SourceRoots(source_roots, (*changes.head_paths(), *_base_paths(changes)))
    if not roots:
        wanted = " or ".join(f"{folder}/__init__.py" for folder in source_roots)
        raise TargetError(f"no {release.framework} sources here: the tree has no {wanted}")
    plan = _plan(changes, roots, site_packages)
    digest = _digest(release, site_packages, plan.patches)
    folder = _laid(cache, digest, site_packages, plan.patches)
    environment = replace(
        _overlaid(release, digest, folder),
        spec=spec or f"{release.framework}@pr",
        notes=(*release.notes, *(f"does not apply: {hunk}" for hunk in plan.rejected)),
    )
    return Overlay(
        environment,
        patched=tuple(
            printable_path(str(path)) for path, text in plan.patches.items() if text is not None
        ),
        removed=tuple(
            printable_path(str(path)) for path, text in plan.patches.items() if text is None
        ),
        rejected=plan.rejected,
        not_carried=plan.not_carried,
    )


def _overlaid(release: Environment, digest: str, folder: Path) -> Environment:
    return replace(
        release,
        spec=f"{release.framework}@pr",
        origin="overlay",
        digest=digest,
        import_paths=(folder, *release.import_paths),
        readable=(*release.readable, folder),
    )


def find_overlay(release: Environment, digest: str, cache: FolderCache) -> Environment | None:
    """The environment of an overlay made before, by its digest (hex digits); None when it is not there."""
    if not digest or not set(digest) <= set("0123456789abcdef"):
        return None
    folder = cache.open(digest)
    return None if folder is None else _overlaid(release, digest, folder)


def _base_paths(changes: ChangeSet) -> tuple[str, ...]:
    """The base's side of the diff: a pull request may delete the very file that a root is known by."""
    return tuple(file.old for file in changes.files if file.old is not None)


def _laid(cache: FolderCache, digest: str, site_packages: Path, patches: Patches) -> Path:
    try:
        return cache.make(digest, lambda folder, _: lay_overlay(site_packages, folder, patches))
    except OSError as error:
        raise TargetError(
            f"the overlay cannot be made in {cache.root}: {error.strerror or error}"
        ) from None


def _plan(changes: ChangeSet, roots: SourceRoots, site_packages: Path) -> _Plan:
    patches: dict[PurePosixPath, str | None] = {}
    rejected: list[RejectedHunk] = []
    not_carried: list[NotCarried] = []
    for file in changes.files:
        why = _why_not_carried(file, roots, site_packages)
        if why is not None:
            not_carried.append(
                NotCarried(printable_path(file.path), why, missed=why == _NOT_RELEASED)
            )
            continue
        try:
            found, hunks = _merge(file, changes, roots, site_packages)
        except MergeError as error:
            raise TargetError(
                f"{printable_path(file.path)} cannot be merged into the release: {error}"
            ) from None
        patches |= found
        rejected += hunks
    return _Plan(dict(sorted(patches.items())), tuple(rejected), tuple(not_carried))


def _why_not_carried(file: ChangedFile, roots: SourceRoots, site_packages: Path) -> str | None:
    """Why an overlay cannot hold a changed file, or None when it can."""
    places = [roots.installed(path) for path in (file.old, file.new) if path is not None]
    if file.binary or not file.path.endswith(".py"):
        return "not a Python file: only a build could carry it"
    if not any(places):
        return "not installed with the package"
    old = roots.installed(file.old) if file.old is not None else None
    if file.new is not None and old is not None and not (site_packages / old).is_file():
        return _NOT_RELEASED
    return None


def _merge(
    file: ChangedFile, changes: ChangeSet, roots: SourceRoots, site_packages: Path
) -> tuple[dict[PurePosixPath, str | None], list[RejectedHunk]]:
    """What becomes of a file: installed path -> new text, or None for a file that is gone."""
    old = roots.installed(file.old) if file.old is not None else None
    new = roots.installed(file.new) if file.new is not None else None
    head = changes.head_text(file.new) if file.new is not None else None
    patches: dict[PurePosixPath, str | None] = {}
    if old is not None and old != new:
        patches[old] = None
    if new is None or head is None or file.new is None:
        return patches, []
    released = _read(site_packages / (old or new))
    if released is None:
        return {**patches, new: head}, []
    base = changes.base_text(file.old) if file.old is not None and old is not None else None
    if base is None:
        if released == head:
            return patches, []
        why = "the release already has this file, with other content"
        return patches, [RejectedHunk(printable_path(file.new), 1, why)]
    merged = three_way(released, base, head)
    why = "the release differs from the base here, its own lines stay"
    hunks = [RejectedHunk(printable_path(file.new), hunk.line, why) for hunk in merged.rejected]
    if merged.text != released or old != new:
        patches[new] = merged.text
    return patches, hunks


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _digest(release: Environment, site_packages: Path, patches: Patches) -> str:
    """32 hex digits over the release and every patched file's path and content."""
    state = hashlib.blake2b(LAYOUT, digest_size=16)
    state.update(f"{release.digest}\0{site_packages}\0".encode())
    for path, text in patches.items():
        content = b"" if text is None else text.encode("utf-8", "surrogateescape")
        kind = "gone" if text is None else len(content)
        state.update(f"{path}\0{kind}\0".encode("utf-8", "surrogateescape"))
        state.update(content)
    return state.hexdigest()
