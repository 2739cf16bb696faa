"""Path globs as configuration files write them: ``*`` and ``?`` stay inside a folder, ``**`` crosses folders.

Matched segment by segment, without one large regular expression: a file's path comes from a pull request, and must not
be able to make a pattern run for minutes.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

ANY_FOLDERS = "**"


def check_glob(glob: str) -> str:
    """The glob itself. Raises ValueError for one that can match nothing in a repository."""
    segments = glob.split("/")
    if glob.startswith("/") or "\\" in glob:
        raise ValueError(
            f"{glob!r}: write paths from the repository's root, with / between folders"
        )
    if glob.endswith("/"):
        raise ValueError(f"{glob!r} names a folder: write {glob}** for all that is in it")
    if any(segment in ("", ".", "..") for segment in segments):
        raise ValueError(f"{glob!r}: no empty, . or .. parts")
    if any(ANY_FOLDERS in segment and segment != ANY_FOLDERS for segment in segments):
        raise ValueError(f"{glob!r}: ** stands alone between slashes")
    return glob


def glob_matches(glob: str, path: str) -> bool:
    """Whether a path from the repository's root matches. Takes (parts of glob) x (parts of path) steps."""
    parts = path.split("/")
    # reached[n]: the glob's parts so far can match the path's first n parts
    reached = [True] + [False] * len(parts)
    for segment in glob.split("/"):
        if segment == ANY_FOLDERS:
            seen = False
            reached = [seen := seen or here for here in reached]
        else:
            steps = zip(reached, parts, strict=False)
            reached = [False, *(here and fnmatchcase(part, segment) for here, part in steps)]
    return reached[-1]
