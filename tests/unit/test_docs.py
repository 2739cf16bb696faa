"""The documentation is true where a test can tell: links, options of commands, and nothing of any one machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
import yaml

from bot.cli import app
from bot.oracle import finding

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")

OPTIONS_OF_OTHERS = {"--check", "--fix"} | set(
    "--build-arg --cap-drop --gpus --init --network --no-healthcheck --pids-limit --read-only --replace --rm --secret --security-opt"
    " --tag --tmpfs --user --volume".split()
)
"""Options in the documentation that are of other programs (ruff; container engines, apparmor_parser)."""

MACHINE_PATHS = re.compile("/" + r"(?:work|root|tmp/x|home/\w+)/")
# Put together here, so that this file does not hold them itself.
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("download", "pytorch", "org"),
            ("registry", "npmjs", "org"),
            ("anaconda", "org"),
            ("ghcr", "io"),
            ("docker", "io"),
        )
    )
)
INVENTED_PATHS = {
    Path(f"tests/{name}.py")
    for name in (
        "integration/test_candidate_interpreter",
        "unit/report/test_read_back",
        "unit/report/test_report_folder",
        "unit/targets/test_environment_store",
    )
}
"""Tests whose paths are made up, as hostile names."""


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def commands(group: Any = None, prefix: str = "opdiff") -> Iterator[tuple[str, set[str]]]:
    """Every command's full name and its options."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        else:
            names = [o for p in command.params for o in (*p.opts, *p.secondary_opts)]
            options = {name for name in names if name.startswith("--")}
            yield f"{prefix} {name}", options


COMMANDS = dict(commands())


def section(command: str) -> str:
    """The README's text on one command."""
    found = re.search(
        rf"^### `{re.escape(command)}`$(.*?)(?=^##)", README, re.MULTILINE | re.DOTALL
    )
    assert found, f"README has no section on {command}"
    return found[1]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in _LINK.findall(_FENCE.sub("", text)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{page.name}: {link}"


def test_there_are_commands_to_check() -> None:
    assert {"opdiff check", "opdiff run", "opdiff replay", "opdiff envs prepare"} <= set(COMMANDS)
    assert {"--candidate", "--fail-on"} <= COMMANDS["opdiff check"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_documented(command: str) -> None:
    missing = COMMANDS[command] - set(_OPTION.findall(section(command)))
    assert not missing, f"README says nothing of {command} {' '.join(sorted(missing))}"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_section_shows_options_that_its_command_does_not_have(command: str) -> None:
    for line in section(command).splitlines():
        cells = re.match(r"\| (`--[^|]+) \|", line)
        if cells:
            assert set(_OPTION.findall(cells[1])) <= COMMANDS[command], line
        for called in re.findall(r"opdiff [a-z][^`#]*", line):
            name = next((c for c in sorted(COMMANDS, reverse=True) if called.startswith(c)), None)
            if name is not None:
                assert set(_OPTION.findall(called)) <= COMMANDS[name], line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_mentioned_exists(page: Path) -> None:
    real = {option for options in COMMANDS.values() for option in options} | {"--help"}
    text = page.read_text(encoding="utf-8")
    worker = {"--in", "--out"}  # docs/worker.md: a worker's own
    assert set(_OPTION.findall(text)) <= real | worker | OPTIONS_OF_OTHERS


def test_the_words_of_findings_are_all_explained() -> None:
    table = README.partition("### Words")[2]
    for words in (finding.Kind, finding.Verdict, finding.Confidence, finding.FindingStatus):
        for word in get_args(words):
            assert f"`{word}`" in table, word


def test_the_picture_stands_alone() -> None:
    picture = (ROOT / "docs/overview.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in picture
    assert not re.search(r"<script|href=|url\(http|<image", picture)


def test_the_decision_table_is_documented_whole() -> None:
    page = (ROOT / "docs/oracle.md").read_text(encoding="utf-8")
    table = page.partition("## Who is wrong")[2].partition("## Status")[0]
    documented = [line for line in table.splitlines() if line.startswith("| ")][2:]
    decisions = yaml.safe_load((ROOT / "bot/oracle/decisions.yml").read_text(encoding="utf-8"))[
        "decisions"
    ]
    assert len(documented) == len(decisions)
    for line, decision in zip(documented, decisions, strict=True):
        assert line.rstrip(" |").endswith(decision["confidence"]), line


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found: list[str] = []
    for path in tracked_files():
        name = path.relative_to(ROOT)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if REGISTRY_HOSTS.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
            if MACHINE_PATHS.search(line) and name not in INVENTED_PATHS:
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
