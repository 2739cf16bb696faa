from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from bot.targets.recipes import RecipeError, load_recipes, read_recipes

ROW = {
    "framework": "torch",
    "distribution": "torch",
    "versions": ">=1.8,<1.11",
    "python": ["3.9"],
    "source": "a fact",
}


def test_the_table_that_is_shipped_serves_the_promised_releases() -> None:
    book = load_recipes()
    for name, version, python in (
        ("torch", "2.13.0", "3.11"),
        ("torch", "2.13.0+cu126", "3.11"),
        ("torch", "2.5.1", "3.11"),
        ("torch", "1.8.1", "3.9"),
        ("torch", "1.10.0", "3.9"),
        ("torch", "1.13.1", "3.10"),
        ("oneflow", "0.9.0", "3.10"),
        ("oneflow", "0.8.0", "3.10"),
    ):
        recipe = book.serving(name, Version(version))
        assert recipe is not None, (name, version)
        assert recipe.python[0] == python


def test_hints_name_a_release_of_the_row() -> None:
    examples = {name: load_recipes().named(name)[0].example for name in ("torch", "oneflow")}
    assert examples == {"torch": "2.13.0", "oneflow": "0.9.0"}
    with pytest.raises(RecipeError, match=r"example 2\.0 is none of the versions"):
        read_recipes([{**ROW, "example": "2.0"}])


def test_versions_between_ranges_have_no_recipe_but_a_build_of_one_takes_the_newest() -> None:
    book = read_recipes([{**ROW, "versions": ">=2.13,<3", "python": ["3.11"]}, ROW])
    assert book.serving("torch", Version("2.0.0")) is None
    nearest = book.nearest("torch", Version("2.0.0"))
    assert nearest is not None
    assert nearest.python == ("3.11",)
    assert book.nearest("jax", Version("1.0")) is None


def test_a_nightly_is_served_by_the_range_that_it_precedes() -> None:
    book = read_recipes([{**ROW, "versions": ">=2.13,<3"}])
    assert book.serving("torch", Version("2.14.0.dev20261101+cpu")) is not None


@pytest.mark.parametrize(
    ("cell", "value", "says"),
    [
        ("versions", "1.8 to 1.10", "range of versions"),
        ("python", ["2.7"], "Python version from 3.8 on"),
        ("python", ["3.7"], "Python version from 3.8 on"),
        ("python", [], "at least 1"),
        ("requirements", ["numpy <"], "no requirement"),
        ("library_paths", ["../lib"], "below site-packages"),
        ("built", ["--index-url=x"], "no distribution's name"),
        ("framework", "Torch!", "match"),
        ("source", "", "at least 1"),
        ("colour", "red", "not permitted"),
    ],
)
def test_each_bad_row_gives_one_line_that_names_row_and_cell(
    cell: str, value: object, says: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipes([ROW, {**ROW, cell: value}])
    lines = str(caught.value).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("recipe 2 ")
    assert cell in lines[0]
    assert says in lines[0]


def test_every_bad_row_is_reported_not_the_first_alone() -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipes([{**ROW, "python": ["2.7"]}, ROW, "no mapping"])
    lines = str(caught.value).splitlines()
    assert [line.split()[:2] for line in lines] == [["recipe", "1"], ["recipe", "3:"]]


def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path: Path) -> None:
    for text in ("recipes: [", "- 1\n", "recipes: 3\n"):
        path = tmp_path / "recipes.yml"
        path.write_text(text)
        with pytest.raises(RecipeError) as caught:
            load_recipes(path)
        assert "\n" not in str(caught.value)


def test_a_new_framework_is_one_row() -> None:
    row = {
        "framework": "paddle",
        "distribution": "paddlepaddle",
        "versions": ">=3,<4",
        "python": ["3.11"],
        "requirements": ["numpy", "paddle-extra=={version}"],
        "source": "a fact",
    }
    book = read_recipes([ROW, row])
    by_distribution = book.serving("paddlepaddle", Version("3.3.1"))
    assert by_distribution is not None
    assert by_distribution is book.serving("paddle", Version("3.3.1"))
    assert by_distribution.import_name == "paddle"
    assert by_distribution.installed_with(Version("3.3.1+gpu")) == ("numpy", "paddle-extra==3.3.1")
    assert by_distribution.roots == {"paddle": "paddle"}


def test_near_names() -> None:
    book = read_recipes([ROW])
    assert book.near_names("torhc") == "did you mean torch?"
    assert book.near_names("xyz") == "known: torch"
