"""The fake GitHub as a program, for workflows and shell steps.

    python -m tests.fake_github [--port P] [--blob-port P] [--state FILE]

FILE is read when it is there and written after every change. The first line printed is the API's
address. SIGTERM or SIGINT ends it; the exit status is 1 when a request or a response was not as
GitHub's description says.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from .server import FakeGitHub
from .state import State


def written(file: Path, state: State) -> None:
    """Write ``state`` so that a reader never sees half of it."""
    whole = file.with_suffix(".new")
    whole.write_text(state.model_dump_json(indent=1), "utf-8")
    whole.replace(file)


def main() -> int:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the API's port; 0: a free one")
    parser.add_argument(
        "--blob-port", type=int, default=0, help="the artifacts' port; 0: a free one"
    )
    parser.add_argument("--state", type=Path, help="JSON file: read, then kept up to date")
    arguments = parser.parse_args()
    file: Path | None = arguments.state
    state = State()
    if file and file.exists():
        state = State.model_validate_json(file.read_text("utf-8"))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    github = FakeGitHub(
        state,
        port=arguments.port,
        blob_port=arguments.blob_port,
        changed=(lambda it: written(file, it)) if file else None,
    )
    with github:
        print(github.url, flush=True)
        ended.wait()
    for violation in github.violations:
        print(violation, file=sys.stderr)
    return 1 if github.violations else 0


if __name__ == "__main__":
    sys.exit(main())
