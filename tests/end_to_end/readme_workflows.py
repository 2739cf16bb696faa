"""The workflows that the README tells people to copy, as files for a test's repository."""

from __future__ import annotations

import re

from command import ROOT

HEADING = "### A public repository with forks and GPU runners"


def fork_workflows(action: str, ref: str) -> dict[str, str]:
    """``.github/workflows/NAME.yml`` -> text, of the README's first setup, with the action's address filled in."""
    section = (ROOT / "README.md").read_text().split(HEADING)[1].split("\n### ")[0]
    found: dict[str, str] = {}
    for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL):
        name = re.match(r"# (\S+)\n", block)
        assert name, block
        found[name[1]] = re.sub(r"OWNER/opdiff(\S*)@COMMIT", rf"{action}\1@{ref}", block)
    assert sorted(found) == [
        f".github/workflows/opdiff{name}.yml" for name in ("-command", "-publish", "")
    ]
    return found
