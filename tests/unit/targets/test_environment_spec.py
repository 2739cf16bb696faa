from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import Tag

from bot.targets.environment_spec import (
    interpreter_path,
    read_requirement,
    read_wheel,
    supported_pythons,
)
from bot.targets.recipes import RecipeBook, read_recipes
from bot.targets.target import TargetError

BOOK = read_recipes(
    [
        {
            "framework": "torch",
            "distribution": "torch",
            "versions": ">=2.13,<3",
            "python": ["3.11", "3.12"],
            "source": "a fact",
        },
        {
            "framework": "paddle",
            "distribution": "paddlepaddle",
            "versions": ">=3,<4",
            "python": ["3.11"],
            "source": "a fact",
        },
    ]
)
LINUX = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "linux_x86_64"]


def wheel(folder: Path, name: str, content: bytes = b"zip") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def one_line(call: object) -> str:
    text = str(call)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("spec", "install"),
    [
        ("torch==2.13.0", "torch==2.13.0"),
        ("torch==2.13.0+cu126", "torch==2.13.0+cu126"),
        ("torch[opt]==2.13.0", "torch[opt]==2.13.0"),
        ("paddle==3.3.1", "paddlepaddle==3.3.1"),
        ("PaddlePaddle == 3.3.1", "paddlepaddle==3.3.1"),
    ],
)
def test_a_requirement_pins_one_version(spec: str, install: str) -> None:
    assert read_requirement(spec, BOOK).install == install


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("torch", "name one version"),
        ("torch>=2.13", "name one version"),
        ("torch==2.*", "name one version"),
        ("torch==2.13,==2.14", "name one version"),
        ("torch==2.13.0; python_version > '3'", "without URL or marker"),
        ("torch==1.0", "no recipe for this version, known are >=2.13,<3"),
        ("torhc==2.13.0", "did you mean torch?"),
        ("paddlepadle==3.3.1", "did you mean paddlepaddle"),
        ("!!", "is no requirement"),
    ],
)
def test_a_bad_requirement_is_refused_in_one_line(spec: str, says: str) -> None:
    with pytest.raises(TargetError) as caught:
        read_requirement(spec, BOOK)
    assert says in one_line(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_build_or_a_target_error(text: str) -> None:
    said = ""
    try:
        read_requirement(text, BOOK)
    except TargetError as error:
        said = str(error)
    assert "\n" not in said


def test_a_glob_must_match_exactly_one_wheel(tmp_path: Path) -> None:
    pattern = str(tmp_path / "torch-*.whl")
    with pytest.raises(TargetError, match="no wheel matches"):
        read_wheel(pattern, BOOK, platform_tags=lambda: LINUX)
    only = wheel(tmp_path, "torch-2.13.1-cp311-cp311-linux_x86_64.whl", b"content")
    build = read_wheel(pattern, BOOK, platform_tags=lambda: LINUX)
    assert build.install == str(only)
    assert build.pythons == ("3.11",)
    assert build.identity == hashlib.blake2b(b"content").hexdigest()
    wheel(tmp_path, "torch-2.13.2-cp311-cp311-linux_x86_64.whl")
    with pytest.raises(TargetError, match="2 wheels match"):
        read_wheel(pattern, BOOK, platform_tags=lambda: LINUX)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("torch-2.13.1-cp39-cp39-linux_x86_64.whl", "built for Python cp39-cp39"),
        ("torch-2.13.1-cp311-cp311-win_amd64.whl", "built for win_amd64"),
        ("torch-2.13.1-cp311-cp311-macosx_11_0_arm64.whl", "built for macosx_11_0_arm64"),
        ("numpy-2.0-cp311-cp311-linux_x86_64.whl", "no recipe for 'numpy'"),
        ("torch.whl", "no wheel's file name"),
    ],
)
def test_a_wheel_that_cannot_run_here_is_refused_in_one_line(
    tmp_path: Path, name: str, says: str
) -> None:
    path = wheel(tmp_path, name)
    with pytest.raises(TargetError) as caught:
        read_wheel(str(path), BOOK, platform_tags=lambda: LINUX)
    assert says in one_line(caught.value)


def test_a_wheel_outside_every_range_takes_the_newest_recipe_and_says_so(tmp_path: Path) -> None:
    path = wheel(tmp_path, "torch-3.1.0a0+git1-cp312-cp312-linux_x86_64.whl")
    build = read_wheel(str(path), BOOK, platform_tags=lambda: LINUX)
    assert build.pythons == ("3.12",)
    assert "outside every recipe" in build.notes[0]


def test_a_framework_can_be_given_for_a_wheel_of_another_name(tmp_path: Path) -> None:
    path = wheel(tmp_path, "paddlepaddle_gpu-3.3.1-py3-none-any.whl")
    build = read_wheel(str(path), BOOK, "paddle", platform_tags=lambda: LINUX)
    assert build.recipe.framework == "paddle"


def test_abi3_and_pure_wheels_run_on_later_pythons() -> None:
    pythons = ["3.12", "3.11", "3.8"]
    assert supported_pythons([Tag("py3", "none", "any")], pythons, LINUX) == tuple(pythons)
    abi3 = [Tag("cp310", "abi3", "manylinux_2_17_x86_64")]
    assert supported_pythons(abi3, pythons, LINUX) == ("3.12", "3.11")


def test_interpreter_paths() -> None:
    assert interpreter_path('python="/a b/python"') == Path("/a b/python")
    with pytest.raises(TargetError, match="no path"):
        interpreter_path("python=")


def test_an_empty_book_still_answers() -> None:
    with pytest.raises(TargetError):
        read_requirement("torch==2.13.0", RecipeBook(()))
