"""The system call filter, run by an interpreter of classic BPF written from the kernel's documentation."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.targets.seccomp import filter_program, refused_calls

X86_64, AARCH64 = 0xC000003E, 0xC00000B7  # linux/audit.h
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def run(program: bytes, architecture: int, number: int, first_argument: int = 0) -> int:
    """Documentation/networking/filter.rst: loads, jumps relative to the next step, return."""
    data = struct.pack("<iIQQ", number, architecture, 0, first_argument)
    steps = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x35:
            at += if_true if accumulator >= value else if_false
        elif code == 0x45:
            at += if_true if accumulator & value else if_false
        elif code == 0x06:
            return value
        else:
            raise AssertionError(code)


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", X86_64), ("aarch64", AARCH64)])
class TestFilter:
    def test_every_call_of_the_table_is_refused(self, machine, architecture):
        program = filter_program(machine)
        for call in refused_calls():
            number = call.number(machine)
            if number is not None:
                assert run(program, architecture, number) == ERRNO | 1, call.name

    def test_another_architecture_is_killed(self, machine, architecture):
        assert run(filter_program(machine), 0x40000003, 0) == KILL  # i386

    def test_new_user_namespaces(self, machine, architecture):
        program = filter_program(machine)
        clone = {"x86_64": 56, "aarch64": 220}[machine]
        assert run(program, architecture, clone, 0x10000000 | 17) == ERRNO | 1
        assert run(program, architecture, clone, 0x01200011) == ALLOW  # what fork does
        assert run(program, architecture, clone, 0x003D0F00) == ALLOW  # what pthread_create does
        assert run(program, architecture, 435) == ERRNO | 38

    def test_socket_families(self, machine, architecture):
        program = filter_program(machine)
        socket = {"x86_64": 41, "aarch64": 198}[machine]
        allowed = [
            family for family in range(64) if run(program, architecture, socket, family) == ALLOW
        ]
        assert allowed == [1, 2, 10, 16]
        assert (
            run(program, architecture, socket, 40) == ERRNO | 97
        )  # vsock: the host of a virtual machine

    @given(number=st.integers(0, 600))
    def test_everything_else_is_allowed(self, machine, architecture, number):
        special = {call.number(machine) for call in refused_calls()} | {41, 198, 435}
        if number not in special:
            assert run(filter_program(machine), architecture, number) == ALLOW


def test_the_x32_table_is_closed():
    assert run(filter_program("x86_64"), X86_64, 0x40000000 | 101) == ERRNO | 38


def test_an_unknown_machine_has_no_filter():
    assert filter_program("riscv64") is None
