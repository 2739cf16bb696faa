"""From a target's spec to what a pool can start."""

from __future__ import annotations

from difflib import get_close_matches

from bot.changes.changeset import ChangeSet
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import PoolTarget
from bot.targets.overlay import Overlay, make_overlay
from bot.targets.target import Target, TargetError, parse_target

CANDIDATE_ROLE = "pr"


def resolve(
    target: Target | str,
    store: EnvironmentStore,
    candidate: Environment | Overlay | None = None,
) -> PoolTarget:
    """The target with its environment, prepared when it is missing.

    ``FRAMEWORK@pr`` is the ``candidate``, which is untrusted. Raises TargetError, in one line, for what cannot be
    made.
    """
    if isinstance(target, str):
        target = parse_target(target)
    if target.interpreter is None and "@" in target.environment:
        environment = candidate.environment if isinstance(candidate, Overlay) else candidate
        return PoolTarget(target, _candidate(target, environment, store), untrusted=True)
    framework = target.option("framework") or None
    if framework is not None and framework not in store.recipes.frameworks():
        raise TargetError(
            f"{target}: no framework {framework!r}: {store.recipes.near_names(framework)}"
        )
    return PoolTarget(target, store.prepare(target.environment, framework))


def overlay_of(release: Environment, changes: ChangeSet, store: EnvironmentStore) -> Overlay:
    """The overlay of a release and a diff. Raises TargetError when the diff is of another framework's sources."""
    return make_overlay(
        release,
        changes,
        site_packages=store.site_packages(release),
        source_roots=store.recipe_of(release).roots,
        cache=store.overlays,
    )


def _candidate(
    target: Target, environment: Environment | None, store: EnvironmentStore
) -> Environment:
    framework, _, role = target.environment.partition("@")
    if framework not in store.recipes.frameworks():
        raise TargetError(
            f"{target}: no framework {framework!r}: {store.recipes.near_names(framework)}"
        )
    if role != CANDIDATE_ROLE:
        near = " (did you mean @pr?)" if get_close_matches(role, [CANDIDATE_ROLE]) else ""
        raise TargetError(f"{target}: no role {role!r}{near}, write {framework}@pr")
    if environment is None:
        raise TargetError(f"{target}: there is no candidate: this run has no pull request")
    if environment.framework != framework:
        raise TargetError(f"{target}: the candidate is a build of {environment.framework}")
    return environment
