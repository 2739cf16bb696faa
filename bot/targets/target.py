"""Target: what runs a program. An environment, a device and options, written as one spec.

Grammar, as users type it::

    REQUIREMENT[:DEVICE[:OPTION[,OPTION]...]]

    torch==2.13.0:cpu
    torch==2.13.0+cu126:cuda:compile,float64,threads=1
    oneflow@pr:cuda
    python="/path with space/bin/python":cpu
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

DEVICES = ("cpu", "cuda")
MODES = ("channels_last", "compile", "graph", "jit", "script", "to_static", "trace")
"""Options that say how a program's calls are run, other than one by one as they stand there."""

_SPEC = re.compile(
    r"""(?P<environment>python="[^"]*"|python=[^:]+|[A-Za-z][A-Za-z0-9_.-]*(?:\[[^\]]*\])?(?:[=<>!~@][^:]*)?)
        (?::(?P<device>[a-z]+(?:\.\d+)?))?
        (?::(?P<options>[A-Za-z0-9_=,.+-]+))?""",
    re.VERBOSE,
)


class TargetError(ValueError):
    """A target spec that cannot be read or made; the message is one line and says what to do."""


@dataclass(frozen=True)
class Target:
    """What runs a program: an environment's spec, a device and options.

    ``environment`` is a requirement (``torch==2.13.0``), an interpreter (``python=/path``) or
    ``FRAMEWORK@ROLE`` (``oneflow@pr``: the candidate built from the pull request).
    """

    environment: str
    device: str = "cpu"
    options: tuple[tuple[str, str], ...] = field(default=())

    def __str__(self) -> str:
        """The spec that parses to this target."""
        environment = self.environment
        if environment.startswith("python=") and re.search(r"[\s:]", environment):
            environment = f'python="{environment.removeprefix("python=")}"'
        options = ",".join(f"{key}={value}" if value else key for key, value in self.options)
        return f"{environment}:{self.device}" + (f":{options}" if options else "")

    @property
    def name(self) -> str:
        """The requirement's name (``torch``, ``paddlepaddle``), or ``python`` for an interpreter given by path."""
        return re.split(r"[\[=<>!~@]", self.environment, maxsplit=1)[0]

    @property
    def interpreter(self) -> Path | None:
        """The interpreter's path when the environment is given by one."""
        path = self.environment.removeprefix("python=")
        return Path(path) if path != self.environment else None

    def option(self, key: str, default: str = "") -> str:
        """An option's value; ``"1"`` for a bare flag that is set."""
        for name, value in self.options:
            if name == key:
                return value or "1"
        return default


def mode_of(label: str) -> str:
    """The modes among the options of a target's label, as in ``compile=inductor``; an empty text for none."""
    try:
        target = parse_target(label.partition("#")[0])
    except TargetError:
        return ""
    modes = [(key, value) for key, value in target.options if key in MODES]
    return ",".join(f"{key}={value}" if value else key for key, value in modes)


def names_a_path(spec: str) -> bool:
    """Whether a spec names a file on this machine, whose code would run: an interpreter or a wheel.

    A folder from elsewhere must not choose one.
    """
    return spec.lstrip().startswith("python=") or "/" in spec or ".whl" in spec


def parse_target(spec: str) -> Target:
    """Read a target spec. Raises TargetError with what is wrong and an example."""
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        raise TargetError(
            f"target {spec!r} is not REQUIREMENT[:DEVICE[:OPTIONS]], as in torch==2.13.0:cpu"
        )
    environment = match["environment"].strip().replace('"', "")
    device = match["device"] or "cpu"
    if device.split(".")[0] not in DEVICES:
        raise TargetError(f"target {spec!r}: device {device!r} is none of {', '.join(DEVICES)}")
    options: list[tuple[str, str]] = []
    for part in filter(None, (match["options"] or "").split(",")):
        key, _, value = part.partition("=")
        options.append((key, value))
    return Target(environment, device, tuple(options))
