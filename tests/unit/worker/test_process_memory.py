"""What a worker knows of its own memory, against psutil and an array of known size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parents[3] / "bot" / "worker"

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, psutil
from process_memory import give_back_memory, resident_bytes
before = resident_bytes()
assert abs(before - psutil.Process().memory_info().rss) < 8 << 20
held = [numpy.ones(1 << 17, numpy.uint8) for _ in range(1024)]
grown = resident_bytes() - before
assert grown > 120 << 20, grown
del held
give_back_memory()
left = resident_bytes() - before
assert left < 20 << 20, left
"""


def test_memory_is_counted_and_given_back() -> None:
    """1,024 arrays of 128 KiB: 128 MiB more, and little of it left when they are freed."""
    subprocess.run([sys.executable, "-c", SCRIPT, str(WORKER)], check=True)
