"""From a target's spec to what a pool can start."""

from __future__ import annotations

from bot.changes.changeset import ChangeSet
from bot.targets.checked_spec import check_framework_option, check_role
from bot.targets.environment import Environment
from bot.targets.environment_store import EnvironmentStore
from bot.targets.job import PoolTarget
from bot.targets.overlay import Overlay, make_overlay
from bot.targets.target import Target, TargetError, parse_target


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
    check_framework_option(target, store.recipes)
    framework = target.option("framework") or None
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
    check_role(target, store.recipes)
    framework, _, _ = target.environment.partition("@")
    if environment is None:
        raise TargetError(f"{target}: there is no candidate: this run has no pull request")
    if environment.framework != framework:
        raise TargetError(f"{target}: the candidate is a build of {environment.framework}")
    return environment
