"""``.github/opdiff.yml``: what a repository says of its own checks, as one validated :class:`Config`.

Read from the base commit alone, by check, merge and publish alike: a pull request must not decide what is ignored in it.
Every key is described in ``docs/config.md``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from bot.errors import OpDiffError
from bot.failing import result_of
from bot.github.state import Decision, Fingerprint
from bot.known_names import check_op_name
from bot.oracle.finding import Kind, Verdict
from bot.path_globs import check_glob
from bot.report.results import FailOn, FindingRow, Results
from bot.report.rows import clip, note_rows
from bot.shards.split import MAX_SHARDS
from bot.targets.checked_spec import check_candidate, check_target
from bot.targets.recipes import load_recipes
from bot.targets.target import DEVICES
from bot.yaml_lines import YamlError, parse_yaml

CONFIG_PATH: Final = ".github/opdiff.yml"
MAX_CONFIG_BYTES: Final = 256 << 10
MAX_RULES: Final = 1_000
MAX_SEED: Final = 2**32 - 1
MAX_BUDGET: Final = 7 * 86_400.0
CONFIG_VERSION: Final = 1


class ConfigError(OpDiffError):
    """A configuration cannot be used; the message is one line: which file, which line, what is wrong."""


def _split(value: Any) -> Any:
    """``cpu,cuda`` as a list, as the command line takes it."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _spec(spec: str) -> str:
    check_target(spec, load_recipes())
    return spec


def _candidate(spec: str) -> str:
    check_candidate(spec, load_recipes())
    return spec


def _op_name(name: str) -> str:
    check_op_name(name)
    return name


def known_device(device: str) -> str:
    """The device itself. Raises ValueError for one that targets cannot have."""
    if device.split(".")[0] not in DEVICES:
        raise ValueError(f"device {device!r} is none of {', '.join(DEVICES)}")
    return device


def _iso_date(value: Any) -> Any:
    """Only ``2030-01-31``: a bare number would be read as seconds since 1970."""
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        raise ValueError("write a day as 2030-01-31")
    return value


def _not_blank(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        raise ValueError("say why")
    return text


Word = Annotated[str, Field(min_length=1, max_length=100)]
Spec = Annotated[str, Field(min_length=1, max_length=500)]
CandidateSpec = Annotated[Spec, AfterValidator(_candidate)]
TargetSpec = Annotated[Spec, AfterValidator(_spec)]
Device = Annotated[Word, AfterValidator(known_device)]
Devices = Annotated[
    tuple[Device, ...],
    Field(min_length=1, max_length=4),
    BeforeValidator(_split),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
OpPattern = Annotated[str, Field(pattern=r"^[A-Za-z_*?][A-Za-z0-9_.*?]{0,199}$")]
OpName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,199}$"), AfterValidator(_op_name)]
Glob = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(check_glob)]
Reason = Annotated[str, Field(max_length=500), AfterValidator(_not_blank)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class OpRule(_Model):
    """Which ops a change of these files changes: what the diff's reader cannot see for itself."""

    paths: Annotated[tuple[Glob, ...], Field(min_length=1, max_length=100)]
    """Files, from the repository's root: `*` and `?` stay inside a folder, `**` crosses folders."""
    ops: Annotated[tuple[OpName, ...], Field(max_length=200)]
    """The ops to test beside those that are proven; an empty list states that such a file changes no op.

    A name that nobody knows is refused, unless it is one of another framework's own, as `oneflow.nn.FusedBatchNorm2d`."""


ArgumentName = Literal["dtypes", "layouts", "sizes", "special", "options"]
ArgumentConditions = Annotated[
    dict[ArgumentName, Annotated[tuple[Word, ...], Field(min_length=1, max_length=20)]],
    Field(min_length=1),
]
_CONDITIONS: Final = {"fingerprint", "op", "kind", "verdict", "arguments"}


def _words(value: Any) -> set[str]:
    """The words of one part of a finding's argument class, which may come from an untrusted run."""
    if not isinstance(value, list | tuple):
        return set()
    return {word for word in cast("Sequence[Any]", value) if isinstance(word, str)}


class IgnoreRule(_Model):
    """Findings that do not fail a run. All conditions that are given must hold; at least one must be given."""

    fingerprint: Fingerprint | None = None
    """One finding's fingerprint, as report and comment show it."""
    op: OpPattern | None = None
    """An op, or a pattern with `*` and `?`."""
    kind: Kind | None = None
    """A kind of finding, such as `nan`."""
    verdict: Verdict | None = None
    """A verdict, such as `undecided`."""
    arguments: ArgumentConditions | None = None
    """A class of arguments: words that the finding's program must have, by `dtypes` (`half`, `float`, `complex`, `integer`, `bool`), `layouts` (`contiguous`, `strided`, `expanded`, `lazy`), `sizes` (`empty`, `scalar`, `small`, `large`), `special` (`nan`, `inf`) and `options` (names of keyword arguments), such as `{special: [nan]}`."""
    reason: Reason
    """Why; it is shown with the finding."""
    until: Annotated[date | None, BeforeValidator(_iso_date)] = None
    """The last day (UTC) on which it holds, such as `2030-01-31`; without it, for good."""

    @model_validator(mode="after")
    def _has_a_condition(self) -> IgnoreRule:
        if not self.model_fields_set & {"fingerprint", "op", "kind", "verdict", "arguments"}:
            raise ValueError("say what to ignore: fingerprint, op, kind, verdict or arguments")
        return self

    def matches(self, finding: FindingRow) -> bool:
        """Whether the finding is one of those that are meant, whatever the day."""
        return (
            self.fingerprint in (None, finding.fingerprint)
            and all(
                self.op is None or fnmatchcase(op, self.op) for op in (finding.op, *finding.ops)
            )
            and self.kind in (None, finding.kind)
            and self.verdict in (None, finding.verdict)
            and all(
                set(words) <= _words(finding.argument_class.get(name))
                for name, words in (self.arguments or {}).items()
            )
        )

    def concerns(self, op: str) -> bool:
        """Whether the rule names this op, or a pattern that it fits."""
        return self.op is not None and fnmatchcase(op, self.op)

    @property
    def shown(self) -> str:
        """Its conditions in one line."""
        said = self.model_dump(mode="json", include=_CONDITIONS, exclude_none=True)
        return ", ".join(f"{name}: {value}" for name, value in said.items())


class Config(_Model):
    """The whole file. What it leaves out is the command line's or the framework's default."""

    version: Annotated[int, Field(ge=CONFIG_VERSION, le=CONFIG_VERSION)] = CONFIG_VERSION
    """The version of this format: 1. Required."""
    framework: Word | None = None
    """The framework whose ops this repository changes, such as `torch` or `oneflow`; else found from the tree."""
    candidate: CandidateSpec | None = None
    """`overlay`, a requirement, a wheel's path or glob, or `python=/path`."""
    baseline: TargetSpec | None = None
    """The same framework without the change, such as `torch==2.13.0`."""
    peers: Annotated[tuple[TargetSpec, ...], Field(max_length=10)] | None = None
    """Targets to compare with. [Modes](worker.md#modes) are options of theirs: `torch@pr:cpu:compile` is the candidate itself, compiled, and `torch==2.13.0:cpu:compile` the release, compiled."""
    devices: Devices | None = None
    """`cpu`, `cuda`, or both; each is a run of its own."""
    budget: Annotated[float, Field(gt=0, le=MAX_BUDGET, allow_inf_nan=False)] | None = None
    """Seconds of running programs for the whole check of one device; each shard gets its part by cost."""
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] | None = None
    """Into how many jobs to split the ops, for each device."""
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] | None = None
    """Same seed, same programs."""
    fail_on: FailOn = "candidate"
    """Which findings fail: `candidate` (new or changed ones that are not blamed on others), `any` or `never`."""
    ops: Annotated[tuple[OpRule, ...], Field(max_length=MAX_RULES)] = ()
    """Which files change which ops, where the diff cannot tell."""
    ignore: Annotated[tuple[IgnoreRule, ...], Field(max_length=MAX_RULES)] = ()
    """Findings that do not fail a run."""


def parse_config(raw: bytes, where: str = CONFIG_PATH) -> Config:
    """Read a configuration file. Raises ConfigError: one line that starts with ``where:LINE:``."""
    if len(raw) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{where} has more than the {MAX_CONFIG_BYTES} bytes that are read")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{where}:{line}: not UTF-8") from None
    try:
        document = parse_yaml(text)
    except YamlError as error:
        raise ConfigError(f"{where}:{error.line}: {_shown(str(error))}") from None
    fields: Any = document.value
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}:1: not a mapping of keys: start with `version: 1`")
    if "version" not in fields:
        raise ConfigError(f"{where}:1: no version: start with `version: 1`")
    try:
        return Config.model_validate(fields, by_name=False, by_alias=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        path = tuple(problem["loc"])
        line, key = document.line_of(path), ".".join(str(step) for step in path)
        said = _what(problem["type"], problem["msg"])
        raise ConfigError(f"{where}:{line}: {_shown(f'{key}: {said}')}") from None


def _what(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "no such key: see docs/config.md"
    if kind == "missing":
        return "must be given"
    return message.removeprefix("Value error, ")


def _shown(text: str) -> str:
    return clip(" ".join(text.split()), 400)


def apply_config(
    results: Results, config: Config, decisions: Sequence[Decision], today: date
) -> Results:
    """The results with ``ignored`` set by the configuration and by people's decisions, and the result that follows.

    Pure, and the same when applied twice. ``accept`` (an expected change) excuses its finding on this pull request, the
    last one tells why; ``ignore`` only suggests lines for the configuration, ``wrong`` is counted, and both excuse nothing.
    A rule whose last day is over ignores nothing, and a note says so where it would have mattered; so does one for a rule
    that names tested ops and fits no finding of theirs any more. ``today`` is in UTC.
    """
    decided = {d.fingerprint: d for d in decisions if d.verb == "accept" and d.fingerprint}
    findings: list[FindingRow] = []
    expired: list[str] = []
    for row in results.findings:
        reason = _decided(decided[row.fingerprint]) if row.fingerprint in decided else None
        matching = [rule for rule in config.ignore if rule.matches(row)]
        holding = [rule for rule in matching if rule.until is None or today <= rule.until]
        if reason is None and holding:
            reason = clip(f"ignored: {holding[0].reason}")
        if reason is None:
            expired += [_expired(row, rule) for rule in matching]
        findings.append(row.model_copy(update={"ignored": reason}))
    incomplete = bool(results.shortfalls) or any(s.state != "whole" for s in results.shards)
    said = [*expired, *(_useless(rule) for rule in config.ignore if _fits_no_more(rule, results))]
    notes = [*results.notes, *(note for note in said if note not in results.notes)]
    return results.model_copy(
        update={
            "findings": tuple(findings),
            "fail_on": config.fail_on,
            "result": result_of(findings, config.fail_on, incomplete),
            "notes": note_rows(tuple(dict.fromkeys(notes))) if said else results.notes,
        }
    )


def _decided(decision: Decision) -> str:
    reason = f": {decision.reason}" if decision.reason else ""
    return clip(f"accepted by {decision.author}{reason}")


def _expired(row: FindingRow, rule: IgnoreRule) -> str:
    return clip(
        f"{row.op}: an ignore of the configuration ended on {rule.until} and counts no more ({rule.reason})"
    )


def _fits_no_more(rule: IgnoreRule, results: Results) -> bool:
    """Whether all that a rule names was tested, with programs enough to be whole, and no finding is what it means."""
    whole = not (results.shortfalls or any(shard.state != "whole" for shard in results.shards))
    tested = [row for row in results.coverage if row.tested and rule.concerns(row.op)]
    return whole and bool(tested) and not any(rule.matches(row) for row in results.findings)


def _useless(rule: IgnoreRule) -> str:
    return clip(
        f"an ignore of the configuration fits no finding any more ({rule.shown}; {rule.reason}): it can go"
    )
