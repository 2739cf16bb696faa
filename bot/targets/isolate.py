"""Inside fresh namespaces: build the little file system that a worker may see, give up every privilege, run it.

Run by path as ``unshare ... python -I -S isolate.py JSON -- COMMAND...``, standard library only. It becomes process 1 of
the PID namespace: when it ends, the kernel kills everything inside. It exits as the command did, a signal as 128 + its
number. The steps are those of pivot_root(2), mount_setattr(2), capabilities(7) and seccomp(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import sys
from typing import Any

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC = 2, 4, 8, 4096, 16384
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
MOUNT_SETATTR = 442  # on every architecture
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 4, 2
CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63
NODES = ("null", "zero", "full", "random", "urandom")

LIBC = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    ]


class FilterProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def main(argv: list[str]) -> int:
    """Isolate and run the command."""
    plan: dict[str, Any] = json.loads(argv[1])
    command = argv[3:]
    seccomp = b""
    if plan["seccomp_fd"] is not None:
        with os.fdopen(plan["seccomp_fd"], "rb") as file:
            seccomp = file.read()
    _build(plan)
    _check(LIBC.sethostname(b"opdiff", 6), "sethostname")
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _give_up_privileges(plan["uid"])
            if seccomp:
                _filter(seccomp)
            os.execve(command[0], command, plan["environment"])
        except BaseException as error:
            os.write(2, f"cannot start {command[0]} in the sandbox: {error}\n".encode())
        os._exit(127)
    os.closerange(3, 1024)
    return _reap(child)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, place: str, kind: str, flags: int, options: str = "") -> None:
    result = LIBC.mount(
        source.encode(), place.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _check(result, f"mount {place}")


def _read_only(place: str, recursive: bool = True, devices: bool = False) -> None:
    attributes = MountAttributes(
        ATTR_RDONLY | ATTR_NOSUID | (0 if devices else ATTR_NODEV), 0, 0, 0
    )
    flags = AT_RECURSIVE if recursive else 0
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    result = LIBC.syscall(
        MOUNT_SETATTR, AT_FDCWD, place.encode(), flags, ctypes.byref(attributes), size
    )
    _check(result, f"read-only {place}")


def _pivot(new: str, old: str) -> None:
    number = PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"no pivot_root known for {platform.machine()}")
    _check(LIBC.syscall(number, new.encode(), old.encode()), "pivot_root")


def _build(plan: dict[str, Any]) -> None:
    """A root of its own, with what is shown bound into it; the host's root is gone afterwards."""
    _mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    os.mkdir("/tmp/new", 0o755)  # noqa: PTH102
    os.mkdir("/tmp/old", 0o755)  # noqa: PTH102
    _pivot("/tmp", "/tmp/old")
    os.chdir("/")
    _mount("tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m")
    scratch: dict[str, int] = plan["scratch"]
    shown: list[tuple[str, str]] = plan["shown"]
    for source, path in shown:
        if not path.startswith("/tmp/"):
            _show(source, path)
    for content, path in plan["links"]:
        os.symlink(content, f"/new{path}")  # noqa: PTH211
    _proc(plan["proc_read_only"], plan["proc_masked"])
    _devices(plan["devices"])
    for path, size in scratch.items():
        os.makedirs(f"/new{path}", exist_ok=True)  # noqa: PTH103
        _mount("tmpfs", f"/new{path}", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size}")
    for source, path in shown:
        if path.startswith("/tmp/"):
            _show(source, path)
    for path in plan["hidden"]:
        _mount("tmpfs", f"/new{path}", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0000,size=4k")
        _read_only(f"/new{path}")
    _check(LIBC.umount2(b"/old", MNT_DETACH), "umount2")
    os.chdir("/new")
    _pivot(".", ".")
    _check(LIBC.umount2(b".", MNT_DETACH), "umount2")
    _read_only("/", recursive=False)
    _read_only("/dev", recursive=False, devices=True)
    os.chdir(plan["directory"])


def _show(host_path: str, path: str) -> None:
    source, place = f"/old{host_path}", f"/new{path}"
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
    else:
        _empty_file(place)
    _mount(source, place, "", MS_BIND | MS_REC)
    _read_only(place)


def _empty_file(place: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o444))


def _proc(read_only: list[str], masked: list[str]) -> None:
    os.mkdir("/new/proc", 0o755)  # noqa: PTH102
    _mount("proc", "/new/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for name in [*read_only, *masked]:
        place = f"/new/proc/{name}"
        if os.path.exists(place):  # noqa: PTH110
            _mount(place if name in read_only else "/old/dev/null", place, "", MS_BIND | MS_REC)
            _read_only(place, devices=name in masked)


def _devices(extra: list[str]) -> None:
    os.mkdir("/new/dev", 0o755)  # noqa: PTH102
    _mount("tmpfs", "/new/dev", "tmpfs", MS_NOSUID, "mode=0755,size=64k")
    for path in [*(f"/dev/{name}" for name in NODES), *extra]:
        source, place = f"/old{path}", f"/new{path}"
        if os.path.isdir(source):  # noqa: PTH112
            os.makedirs(place, exist_ok=True)  # noqa: PTH103
        else:
            _empty_file(place)
        _mount(source, place, "", MS_BIND | MS_REC)
    for link, content in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{content}", f"/new/dev/{link}")  # noqa: PTH211


def _give_up_privileges(uid: int | None) -> None:
    """No capability is left, and none can come back: the bounding set is empty and no program is set-uid."""
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(LAST_CAPABILITY + 1):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(LIBC.capset(header, none), "capset")
    _check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _filter(program: bytes) -> None:
    held = ctypes.create_string_buffer(program, len(program))
    described = FilterProgram(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    result = LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0)
    _check(result, "seccomp")


def _reap(child: int) -> int:
    """Wait for the command; as process 1, also for whatever else ends meanwhile."""
    while True:
        with contextlib.suppress(InterruptedError):
            pid, status = os.wait()
            if pid == child:
                if os.WIFSIGNALED(status):
                    return 128 + os.WTERMSIG(status)
                return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        sys.exit(main(sys.argv))
    except OSError as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(126)
