"""A sandbox by util-linux's ``unshare``, for hosts without a working bubblewrap: namespaces from it, the rest by
``isolate.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bot.targets.sandbox_view import (
    PROC_MASKED,
    PROC_READ_ONLY,
    SCRATCH,
    SCRATCH_BYTES,
    SHARED_MEMORY_BYTES,
    View,
)

ISOLATE = Path(__file__).with_name("isolate.py")
NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "--cgroup"]


def unshare_command(
    tool: Path,
    view: View,
    command: list[str],
    variables: dict[str, str],
    uid: int | None,
    seccomp_fd: int | None,
) -> list[str]:
    """The command inside a sandbox; without a ``uid`` to change to, in a user namespace of its own."""
    plan = {
        # Where a path leads on the host is found out here: inside, its links would lead elsewhere.
        "shown": [[str(path.resolve()), str(path)] for path in view.shown],
        "links": [[content, str(path)] for content, path in view.links],
        "devices": [str(path) for path in view.devices],
        "proc_read_only": PROC_READ_ONLY,
        "proc_masked": PROC_MASKED,
        "hidden": [str(path) for path in view.hidden],
        "scratch": {SCRATCH: SCRATCH_BYTES, "/dev/shm": SHARED_MEMORY_BYTES},
        "directory": SCRATCH,
        "uid": uid,
        "seccomp_fd": seccomp_fd,
        "environment": variables,
    }
    user = ["--user", "--map-root-user"] if uid is None else []
    isolate = [sys.executable, "-I", "-S", str(ISOLATE), json.dumps(plan)]
    return [str(tool), *user, *NAMESPACES, "--", *isolate, "--", *command]
