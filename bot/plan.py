"""The plan: everything that determines a run, written down before it starts so that it can be resumed."""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bot.config import MAX_SEED, Config
from bot.report.results import FailOn
from bot.targets.target import names_a_path

PLAN_VERSION: Final = 1

Role = Literal["candidate", "baseline", "peer"]
Source = Literal["opinfo", "moduleinfo", "mutation"]
Dtype = Literal[
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64",
]  # fmt: skip
ALL_KINDS: Final = ("sample", "reference", "error")
ALL_FORMS: Final = ("function", "method", "inplace", "module")
DEFAULT_SOURCES: Final[tuple[Source, ...]] = get_args(Source)
SUITE_SOURCES: Final[tuple[Source, ...]] = ("opinfo", "moduleinfo")
"""PyTorch's own test samples; mutations are made of them."""
CHECK_DTYPES: Final[tuple[Dtype, ...]] = get_args(Dtype)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedTarget(_Model):
    """A target's spec and the part it plays. In a run without a candidate every target is a peer."""

    spec: str
    role: Role = "peer"


class ChangeSource(_Model):
    """Where a check's diff comes from: a repository and two revisions, or a patch and a folder."""

    framework: str | None = None
    repository: str | None = None
    base: str | None = None
    head: str | None = None
    patch: str | None = None
    source: str | None = None


class Plan(_Model):
    """What is run on what. ``ops`` None means all ops of the sources. ``budget`` is in seconds."""

    version: int = PLAN_VERSION
    command: Literal["run", "check"]
    arguments: tuple[str, ...] = ()  # the command line, for the report
    targets: tuple[PlannedTarget, ...]
    ops: tuple[str, ...] | None = None
    sources: tuple[Source, ...] = Field(default=SUITE_SOURCES, min_length=1)
    dtypes: tuple[Dtype, ...] = Field(default=("float32",), min_length=1)
    kinds: tuple[str, ...] = Field(default=ALL_KINDS, min_length=1)
    forms: tuple[str, ...] = Field(default=ALL_FORMS, min_length=1)
    seed: int = Field(default=0, ge=0, le=MAX_SEED)
    budget: float | None = Field(default=None, gt=0)
    per_op: int | None = Field(default=None, ge=1)  # programs of each op and kind; None for all
    mutations: int | None = Field(default=None, ge=0)  # of each op; None for the usual number
    fail_on: FailOn = "any"
    candidate: str | None = (
        None  # how the candidate's environment is made: overlay, a wheel, a requirement...
    )
    change: ChangeSource | None = None
    pull_request: int | None = Field(default=None, ge=1)
    config: Config = Config()
    every: bool = False  # all op groups were asked for, of which ``ops`` are this run's
    device: str = ""  # of a check: what it was asked for
    asked: tuple[str, ...] = ()  # ops that a person named beside those that the diff shows
    shard: str = Field(default="", pattern=r"^([1-9][0-9]*/[1-9][0-9]*)?$")

    @model_validator(mode="after")
    def _is_whole(self) -> Plan:
        """A plan may be read back from a folder that somebody else wrote."""
        if self.command == "check" and (self.change is None or self.candidate is None):
            raise ValueError("a check needs its change and its candidate")
        if self.command == "run" and (len(self.targets) < 2 or self.ops == ()):
            raise ValueError("a run needs two targets and an op")
        return self

    @property
    def paths(self) -> tuple[str, ...]:
        """The specs that name a file on this machine: interpreters and wheels, whose code would run."""
        specs = [target.spec for target in self.targets] + [self.candidate or ""]
        return tuple(filter(names_a_path, specs))

    @property
    def roles(self) -> tuple[Role, ...]:
        """The targets' roles, in their order."""
        return tuple(target.role for target in self.targets)
