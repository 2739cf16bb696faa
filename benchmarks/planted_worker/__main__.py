"""The worker with faults planted in its table of callables: how planted.py knows what must be found.

Started by the pool in place of ``bot/worker``; it is that worker, but for what ``faults.json`` beside it says. A fault
is planted only in a target whose spec has the option ``planted``. Each fault: ``{"fn", "kind", "shape", "when",
"position"}``: the callable, what goes wrong (``planted_faults.py``), the shape of the first tensor argument that it
needs (null: always), what else it needs (``WHEN`` there; null: nothing), and which element is hit (0 first .. 1 last).
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKER = Path(json.loads((HERE / "faults.json").read_text())["worker"])
sys.path[0] = str(WORKER)

import importlib.util  # noqa: E402

import framework as frameworks  # noqa: E402


def make(hello):
    options = dict(hello.get("options", {}))
    planting = options.pop("planted", None) is not None
    framework = frameworks.make({**hello, "options": options})
    if not planting:
        return framework
    sys.path.append(str(HERE))
    import planted_faults

    faults = json.loads((HERE / "faults.json").read_text())["faults"]
    if framework.compiles:
        by_op = {fault["fn"]: fault for fault in faults}
        framework.run_compiled = planted_faults.planted_compiler(framework.run_compiled, by_op)
        return framework
    for fault in faults:
        table = framework.table
        table[fault["fn"]] = planted_faults.planted(table[fault["fn"]], fault)
    return framework


spec = importlib.util.spec_from_file_location("worker_main", WORKER / "__main__.py")
worker_main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker_main)

if __name__ == "__main__":
    sys.exit(worker_main.main(make_framework=make))
