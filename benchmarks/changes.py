"""Recall and precision of the changes room on labelled commits.

Usage: ``python benchmarks/changes.py REPO_DIR [REPO_DIR...] LABELS [--repo OWNER/NAME] [--show]``

LABELS is a JSON Lines file; each row has ``repo``, ``commit``, ``parent``, ``direct_groups`` (canonical op -> the
aliases that existed at the commit) and ``indirect`` (a list of aliases, or "many"). REPO_DIR is a git directory
that holds commits; a row is run on the first that has its commits. Nothing is checked out and nothing is fetched.

A labelled group is found if any of its aliases is predicted, directly or indirectly. A predicted op is a false
alarm if none of its aliases is in the labelled groups or the indirect list; indirect predictions of rows labelled
"many" are not judged.

A quiet row is one whose labels name no op at all, direct or indirect (documentation, CI, tests, renames, licences,
comments, code that is no op's): it is broken by one direct op.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.changes.change import Changes
from bot.changes.changeset import ChangesError
from bot.changes.find import find_changes
from bot.changes.git_changeset import GitChangeSet


@dataclass
class Tally:
    groups: int = 0
    found: int = 0
    direct: int = 0
    direct_right: int = 0
    indirect: int = 0
    indirect_right: int = 0
    sizes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    quiet: int = 0
    quiet_broken: int = 0

    def line(self, name: str) -> str:
        def share(part: int, whole: int) -> str:
            return f"{part}/{whole} ({100 * part / whole:.1f}%)" if whole else "none"

        size = statistics.median(self.sizes) if self.sizes else 0.0
        return (
            f"{name}: recall {share(self.found, self.groups)}, direct precision "
            f"{share(self.direct_right, self.direct)}, indirect precision "
            f"{share(self.indirect_right, self.indirect)}, median size ratio {size:.2f}, "
            f"quiet rows broken {self.quiet_broken}/{self.quiet}, "
            f"seconds per row median {statistics.median(self.seconds):.2f} max {max(self.seconds):.2f}"
        )


def judge(row: dict[str, Any], changes: Changes, tally: Tally) -> list[str]:
    """Add one row to a tally; returns what was missed and what was a false alarm."""
    groups: dict[str, list[str]] = row["direct_groups"]
    many = row["indirect"] == "many"
    known = {alias for aliases in groups.values() for alias in aliases}
    known |= set() if many else set(row["indirect"])
    predicted = {alias for op in changes.ops for alias in op.aliases}
    said: list[str] = []
    for name, aliases in groups.items():
        tally.groups += 1
        if predicted.isdisjoint(aliases):
            said.append(f"missed {name} {aliases}")
        else:
            tally.found += 1
    for op in changes.ops:
        right = not known.isdisjoint(op.aliases)
        if op.how == "direct":
            tally.direct += 1
            tally.direct_right += right
        elif not many:
            tally.indirect += 1
            tally.indirect_right += right
        if not right and (op.how == "direct" or not many):
            said.append(
                f"false alarm ({op.how}) {op.op} {list(op.aliases)[:3]} <- {' | '.join(op.path)}"
            )
    if not many and groups:
        labelled = len(groups) + len(set(row["indirect"]) - {a for x in groups.values() for a in x})
        tally.sizes.append(len(changes.ops) / labelled)
    if not groups and not row["indirect"]:
        tally.quiet += 1
        tally.quiet_broken += any(op.how == "direct" for op in changes.ops)
    return said


def open_row(row: dict[str, Any], repositories: list[Path]) -> GitChangeSet | None:
    """The row's diff from the first repository that has both of its commits."""
    for repository in repositories:
        try:
            return GitChangeSet(repository, row["parent"], row["commit"])
        except ValueError:
            continue
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", type=Path, metavar="REPO_DIR", nargs="+")
    parser.add_argument("labels", type=Path, metavar="LABELS")
    parser.add_argument(
        "--repo", help="only rows of this repository (default: the rows whose commits are there)"
    )
    parser.add_argument("--framework", help="default: found from the tree")
    parser.add_argument(
        "--show", action="store_true", help="print what was missed and what was a false alarm"
    )
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.labels.read_text().splitlines() if line.strip()]
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    skipped = 0
    for row in rows:
        if arguments.repo and row["repo"] != arguments.repo:
            continue
        started = time.monotonic()
        changeset = open_row(row, arguments.repositories)
        if changeset is None:
            skipped += 1
            continue
        with changeset:
            try:
                changes = find_changes(changeset, arguments.framework)
            except ChangesError as error:  # the row counts, with nothing found
                print(f"{row['commit'][:8]}: {error}")
                changes = Changes("unknown")
        seconds = time.monotonic() - started
        for name in (row["repo"], "all"):
            said = judge(row, changes, tallies[name])
            tallies[name].seconds.append(seconds)
        if arguments.show:
            print(
                f"{row['commit'][:8]} {row['title'][:60]} ({seconds:.1f} s, {len(changes.ops)} ops)"
            )
            for line in said:
                print(f"    {line}")
            for entry in changes.unmapped if any("missed" in line for line in said) else ():
                print(f"    unmapped {entry.file}: {entry.why[:300]}")
    for name, tally in tallies.items():
        print(tally.line(name))
    if skipped:
        print(f"{skipped} rows left out: no REPO_DIR has their commits")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
