"""CONTRIBUTING's worked example: a framework in one recipe, one worker file and one mapping, in under 150 lines."""

from __future__ import annotations

from pathlib import Path

import yaml

from bot.targets.op_mapping import FOLDER, load_op_mapping
from bot.targets.recipes import RECIPES_FILE

ROOT = Path(__file__).parents[3]


def recipe_lines(framework: str) -> list[str]:
    rows = RECIPES_FILE.read_text().split("\n\n")
    return next(row for row in rows if f"- framework: {framework}\n" in row).splitlines()


def test_the_example_takes_under_150_lines() -> None:
    worker = (FOLDER.parent / "tensorflow_framework.py").read_text().splitlines()
    mapping = (FOLDER / "tensorflow.yml").read_text().splitlines()
    assert len(worker) + len(mapping) + len(recipe_lines("tensorflow")) < 150
    assert len(load_op_mapping("tensorflow").ops) >= 35


def test_the_recipe_in_the_text_is_the_one_that_ships() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = text.split("```yaml\n", 1)[1].split("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load("\n".join(recipe_lines("tensorflow")))


def test_the_row_in_the_text_is_one_that_ships() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = yaml.safe_load(text.split("```yaml\n", 2)[2].split("```")[0])
    rows = load_op_mapping("tensorflow").ops
    assert {name: (form,) for name, form in shown.items()} == {
        name: rows[name].call for name in shown
    }
