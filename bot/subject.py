"""What a check is about, found alike by plan, check and every shard: the diff, the configuration and the op groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.changes.change import Changes
from bot.changes.changeset import ChangeSet
from bot.changes.find import find_changes, framework_of
from bot.changes.git_changeset import GitChangeSet
from bot.changes.index.store import IndexStore
from bot.changes.patch_changeset import PatchChangeSet
from bot.config import CONFIG_PATH, MAX_CONFIG_BYTES, Config, ConfigError, parse_config
from bot.errors import OpDiffError
from bot.op_rules import asked_ops, with_asked, with_rules
from bot.plan import ChangeSource
from bot.report.files import FileError, read_bounded
from bot.shards.costs import known_ops
from bot.targets.environment_store import default_cache_dir


@dataclass(frozen=True)
class Subject:
    """``changes`` and ``changeset`` are None where all ops are asked for; ``ops`` are all op groups, sorted.

    ``change`` names the commits themselves, not branches that may move on.
    """

    change: ChangeSource
    framework: str
    config: Config
    ops: tuple[str, ...]
    changes: Changes | None = None
    changeset: ChangeSet | None = None


def open_changes(source: ChangeSource) -> ChangeSet:
    """The diff's two sides: two revisions of a repository, or a patch and a folder. Raises OpDiffError, ChangesError."""
    if source.patch and source.source:
        return PatchChangeSet(Path(source.patch), Path(source.source))
    if source.base and source.head:
        return GitChangeSet(Path(source.repository or "."), source.base, source.head)
    raise OpDiffError(
        "say what to check: --repo DIR --base REV --head REV, or --patch FILE --source DIR"
    )


def read_changes(changeset: ChangeSet, framework: str | None, cache: Path | None = None) -> Changes:
    """The ops that a diff changes; what was read is kept in ``cache``, the user's own by default. Raises ChangesError."""
    store = IndexStore((cache or default_cache_dir()) / "changes")
    try:
        return find_changes(changeset, framework, store=store)
    finally:
        store.close()


def changed_subject(
    change: ChangeSource, asked: Sequence[str] = (), config_file: Path | None = None
) -> Subject:
    """The ops that a diff changes, those that the base commit's configuration states, and those asked for.

    Raises OpDiffError, ChangesError.
    """
    changeset = open_changes(change)
    config = _config(config_file, changeset)
    return subject_of(change, changeset, config, asked)


def subject_of(
    change: ChangeSource, changeset: ChangeSet, config: Config, asked: Sequence[str]
) -> Subject:
    """The subject of a diff under a configuration that was read before."""
    changes = read_changes(changeset, change.framework or config.framework)
    changes = with_asked(with_rules(changes, changeset.files, config.ops), asked)
    return Subject(
        _resolved(change, changeset, changes.framework), changes.framework, config,
        tuple(op.op for op in changes.ops), changes, changeset,
    )  # fmt: skip


def whole_subject(
    change: ChangeSource, asked: Sequence[str] = (), config_file: Path | None = None
) -> Subject:
    """All op groups: of the framework that is named, or of the tree that is checked out.

    The configuration is that of the commit that is checked out. Raises OpDiffError, ChangesError.
    """
    head = change.head or "HEAD"
    tree = None
    if change.repository is not None or change.framework is None:
        tree = GitChangeSet(Path(change.repository or "."), head, head)
    config = _config(config_file, tree)
    framework = change.framework or config.framework
    if framework is None:
        assert tree is not None
        framework = framework_of(tree)
    where = ChangeSource(framework=framework, repository=change.repository)
    return Subject(where, framework, config, tuple(sorted({*known_ops(), *asked_ops(asked)})))


def _config(file: Path | None, changeset: ChangeSet | None) -> Config:
    """The configuration that was named, else the base commit's: a pull request does not choose its own."""
    if file is not None:
        try:
            return parse_config(read_bounded(file, MAX_CONFIG_BYTES), str(file))
        except FileError as error:
            raise ConfigError(str(error)) from None
    if not isinstance(changeset, GitChangeSet):
        return Config()
    raw = changeset.file_of_base(CONFIG_PATH, MAX_CONFIG_BYTES)
    if raw is None:
        return Config()
    return parse_config(raw, f"{CONFIG_PATH} of {changeset.base_commit[:12]}")


def _resolved(change: ChangeSource, changeset: ChangeSet, framework: str) -> ChangeSource:
    update: dict[str, str] = {"framework": framework}
    if isinstance(changeset, GitChangeSet):
        update |= {"base": changeset.base_commit, "head": changeset.head_revision}
    return change.model_copy(update=update)
