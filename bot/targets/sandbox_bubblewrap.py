"""A sandbox by bubblewrap (``bwrap``, https://github.com/containers/bubblewrap)."""

from __future__ import annotations

from pathlib import Path

from bot.targets.sandbox_view import (
    PROC_MASKED,
    PROC_READ_ONLY,
    SCRATCH,
    SCRATCH_BYTES,
    SHARED_MEMORY_BYTES,
    View,
)

SETPRIV = Path("/usr/bin/setpriv")  # util-linux
NAMESPACES = [
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
]


def bubblewrap_command(
    tool: Path,
    view: View,
    command: list[str],
    variables: dict[str, str],
    uid: int | None,
    seccomp_fd: int | None,
) -> list[str]:
    """The command inside a sandbox.

    With a ``uid``, bwrap runs as root without a user namespace and setpriv changes to that user inside, giving up the
    last capabilities; without one, a user namespace maps the bot's own user to nobody.
    """
    arguments = [
        str(tool),
        *NAMESPACES,
        "--hostname",
        "opdiff",
        "--die-with-parent",
        "--new-session",
    ]
    arguments += ["--cap-drop", "ALL"]
    if uid is None:
        arguments += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    else:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            arguments += ["--cap-add", capability]
        command = [*drop_privileges(uid), *command]
    if seccomp_fd is not None:
        arguments += ["--seccomp", str(seccomp_fd)]
    arguments += _file_system(view)
    arguments += ["--clearenv"]
    for name, value in variables.items():
        arguments += ["--setenv", name, value]
    return [*arguments, "--chdir", SCRATCH, "--", *command]


def drop_privileges(uid: int) -> list[str]:
    """Become an unprivileged user for good."""
    return [
        str(SETPRIV), "--reuid", str(uid), "--regid", str(uid), "--clear-groups",
        "--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all", "--no-new-privs", "--",
    ]  # fmt: skip


def _file_system(view: View) -> list[str]:
    arguments: list[str] = []
    for path in view.shown:
        if not path.is_relative_to(SCRATCH):
            arguments += _show(path)
    for content, path in view.links:
        arguments += ["--symlink", content, str(path)]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for name in PROC_READ_ONLY:
        arguments += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for name in PROC_MASKED:
        if Path(f"/proc/{name}").exists():
            arguments += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    for path in view.devices:
        arguments += ["--dev-bind", str(path), str(path)]
    arguments += _scratch("/dev/shm", SHARED_MEMORY_BYTES)
    arguments += _scratch(SCRATCH, SCRATCH_BYTES)
    for path in view.shown:
        if path.is_relative_to(SCRATCH):
            arguments += _show(path)
    for path in view.hidden:
        arguments += ["--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path)]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/"]


def _show(path: Path) -> list[str]:
    """Bind read-only; the folders above it must let another user through, which bwrap's own do not always."""
    arguments: list[str] = []
    for parent in reversed(path.parents[:-1]):
        if parent != Path(SCRATCH):
            arguments += ["--perms", "0755", "--dir", str(parent)]
    return [*arguments, "--ro-bind", str(path), str(path)]


def _scratch(path: str, size: int) -> list[str]:
    return ["--perms", "1777", "--size", str(size), "--tmpfs", path]
