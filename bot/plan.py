"""The plan: everything that determines a run, written down before it starts so that it can be resumed."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

PLAN_VERSION: Final = 1

Role = Literal["candidate", "baseline", "peer"]
FailOn = Literal["candidate", "any", "never"]
ALL_KINDS: Final = ("sample", "reference", "error")
ALL_FORMS: Final = ("function", "method", "inplace", "module")
DEFAULT_SOURCES: Final = ("opinfo", "moduleinfo")
CHECK_DTYPES: Final = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64",
)  # fmt: skip


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
    sources: tuple[str, ...] = DEFAULT_SOURCES
    dtypes: tuple[str, ...] = ("float32",)
    kinds: tuple[str, ...] = ALL_KINDS
    forms: tuple[str, ...] = ALL_FORMS
    seed: int = 0
    budget: float | None = None
    fail_on: FailOn = "any"
    candidate: str | None = (
        None  # how the candidate's environment is made: overlay, a wheel, a requirement...
    )
    change: ChangeSource | None = None

    @property
    def roles(self) -> tuple[Role, ...]:
        """The targets' roles, in their order."""
        return tuple(target.role for target in self.targets)
