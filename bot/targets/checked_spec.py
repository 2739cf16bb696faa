"""Specs of targets and candidates that can never be made are refused before anything is read or run."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from bot.targets.environment_spec import (
    interpreter_path,
    is_interpreter,
    is_wheel,
    read_requirement,
)
from bot.targets.recipes import RecipeBook
from bot.targets.target import Target, TargetError, parse_target

CANDIDATE_ROLE: Final = "pr"
OVERLAY: Final = "overlay"


def check_target(spec: str, book: RecipeBook) -> None:
    """Refuse a target that no recipe can make: without a version, of an unknown framework. Raises TargetError.

    Whether a file or a release is there is another question: it may be on another machine, and is asked there.
    """
    target = parse_target(spec)
    check_framework_option(target, book)
    if target.interpreter is None and "@" in target.environment:
        check_role(target, book)
    else:
        _check_environment(target.environment, book)


def check_candidate(spec: str, book: RecipeBook) -> None:
    """Refuse a candidate's spec in the same way: ``overlay``, a requirement, a wheel or an interpreter. Raises TargetError."""
    if spec != OVERLAY:
        _check_environment(spec, book)


def check_framework_option(target: Target, book: RecipeBook) -> None:
    """Refuse ``framework=NAME`` with a name that has no recipe. Raises TargetError."""
    framework = target.option("framework")
    if framework and framework not in book.frameworks():
        raise TargetError(f"{target}: no framework {framework!r}: {book.near_names(framework)}")


def check_role(target: Target, book: RecipeBook) -> None:
    """Refuse ``FRAMEWORK@ROLE`` with an unknown framework or a role other than the candidate's. Raises TargetError."""
    framework, _, role = target.environment.partition("@")
    if framework not in book.frameworks():
        raise TargetError(f"{target}: no framework {framework!r}: {book.near_names(framework)}")
    if role != CANDIDATE_ROLE:
        near = " (did you mean @pr?)" if get_close_matches(role, [CANDIDATE_ROLE]) else ""
        raise TargetError(f"{target}: no role {role!r}{near}, write {framework}@pr")


def _check_environment(spec: str, book: RecipeBook) -> None:
    if is_interpreter(spec):
        interpreter_path(spec)
    elif not is_wheel(spec):
        read_requirement(spec, book)
