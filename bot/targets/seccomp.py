"""The sandbox's system call filter, as a classic BPF program (seccomp(2), linux/filter.h, linux/seccomp.h)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

TABLE = Path(__file__).with_name("seccomp.yml")

# linux/bpf_common.h, linux/seccomp.h, linux/audit.h
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERROR = 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENT_0 = (
    0,
    4,
    16,
)  # offsets in struct seccomp_data (little-endian low words)
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_CLONE_NEWUSER = 0x10000000
_X32 = 0x40000000

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE3: Final = {"x86_64": 435, "aarch64": 435}
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
SOCKET_FAMILIES: Final = (
    1,
    2,
    10,
    16,
)  # unix, inet, inet6, netlink: those that the network namespace confines


class RefusedCall(BaseModel):
    """A row of ``seccomp.yml``: a system call and its number on each architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    x86_64: int | None
    aarch64: int | None

    def number(self, machine: str) -> int | None:
        """Its number on ``x86_64`` or ``aarch64``."""
        return self.x86_64 if machine == "x86_64" else self.aarch64


def refused_calls() -> list[RefusedCall]:
    """The table, validated."""
    return TypeAdapter(list[RefusedCall]).validate_python(yaml.safe_load(TABLE.read_text()))


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def filter_program(machine: str) -> bytes | None:
    """The filter for ``platform.machine()``, as an array of struct sock_filter; None where the table has no numbers."""
    if machine not in ARCHITECTURES:
        return None
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, ARCHITECTURES[machine], if_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # the x32 table would be a second door to the same calls
        steps += [_step(_AT_LEAST, _X32, if_false=1), _step(_RETURN, _ERROR | _ENOSYS)]
    for call in refused_calls():
        number = call.number(machine)
        if number is not None:
            steps += [_step(_EQUAL, number, if_false=1), _step(_RETURN, _ERROR | _EPERM)]
    # The C library falls back to clone, whose flags can be looked at.
    steps += [_step(_EQUAL, _CLONE3[machine], if_false=1), _step(_RETURN, _ERROR | _ENOSYS)]
    steps += [
        _step(_EQUAL, _CLONE[machine], if_false=4),
        _step(_LOAD, _ARGUMENT_0),
        _step(_ANY_BIT, _CLONE_NEWUSER, if_false=1),
        _step(_RETURN, _ERROR | _EPERM),
        _step(_RETURN, _ALLOW),
    ]
    families = SOCKET_FAMILIES
    steps += [
        _step(_EQUAL, _SOCKET[machine], if_false=len(families) + 2),
        _step(_LOAD, _ARGUMENT_0),
    ]
    for index, family in enumerate(families):
        steps.append(_step(_EQUAL, family, if_true=len(families) - index))
    steps.append(_step(_RETURN, _ERROR | _EAFNOSUPPORT))
    steps.append(_step(_RETURN, _ALLOW))
    return b"".join(steps)
