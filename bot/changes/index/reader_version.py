"""What a cached result was made by: a hash of the code that reads, so that another OpDiff reads anew."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_LIBRARIES: Final = ("pyyaml", "numpy", "unidiff")
_KINDS: Final = (".py", ".yml", ".yaml", ".json")


@cache
def version_of(*packages: str) -> str:
    """A hash of the sources and tables of packages, of the libraries that parse, and of the interpreter."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{sys.implementation.cache_tag} {sys.version}".encode())
    for name in _LIBRARIES:
        digest.update(f"\0{name} {_version(name)}".encode())
    for package in packages:
        _add(digest, files(package), package)
    return digest.hexdigest()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _add(digest: hashlib.blake2b, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        inner = f"{name}/{entry.name}"
        if entry.is_dir() and not entry.name.startswith(("__", ".")):
            _add(digest, entry, inner)
        elif entry.name.endswith(_KINDS):
            data = entry.read_bytes()
            digest.update(f"\0{inner} {len(data)}\0".encode())
            digest.update(data)
