"""A bare in-process loop over programs: what running them costs without OpDiff. Started by throughput.py.

    PYTHON benchmarks/bare_loop.py FRAMEWORK BLOBS REPEATS RESULTS

Under the framework's own interpreter. Each program is prepared before the clock starts: its arrays are NumPy arrays
in memory, its calls bound to callables, its constant arguments decoded. Timed per program, as somebody would write it
by hand: tensors from the arrays, the calls, backward, every output and gradient to NumPy. The results of one pass are
written to the file RESULTS, for somebody else to compare.

Prints the index of each program before its first run (a framework may die on it), and last one JSON line:
``{"usable": [indices], "cpu_seconds": of one pass}``. A program that raises or that a bare loop cannot express is left
out. ``ONEFLOW_VM_MULTI_THREAD`` set to 1 leaves OneFlow the threads it has by itself; else it has none, as in a worker.
"""

import json
import struct
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bot" / "worker"))

import executor
import framework as frameworks
import values


def _prepare(value, worker):
    """A function environment -> argument; constants are decoded here, once."""
    if isinstance(value, dict) and "ref" in value:
        name, path = value["ref"], tuple(value.get("path", ()))
        if path:
            return lambda env: values.follow(env[name], path)
        return lambda env: env[name]
    if "ref" not in json.dumps(value):
        constant = values.decode(value, {}, worker)
        return lambda env: constant
    if isinstance(value, list):
        parts = [_prepare(part, worker) for part in value]
        return lambda env: [part(env) for part in parts]
    if isinstance(value, dict) and "tuple" in value:
        parts = [_prepare(part, worker) for part in value["tuple"]]
        return lambda env: tuple(part(env) for part in parts)
    return lambda env: values.decode(value, env, worker)


def _array(spec, storages, data):
    storage = storages[spec["storage"]]
    dtype = {"bfloat16": "uint16"}.get(spec["dtype"], spec["dtype"])
    flat = np.frombuffer(
        data, dtype, storage["nbytes"] // np.dtype(dtype).itemsize, storage["offset"]
    )
    strides = [stride * flat.itemsize for stride in spec["strides"]]
    return np.array(
        np.lib.stride_tricks.as_strided(flat[spec.get("offset", 0) :], spec["shape"], strides)
    )


def compile_program(blob, worker, module):
    """The program as a function of no arguments. Raises for what a bare loop would not do (modules, odd dtypes)."""
    text, start = executor.split(blob, 0, len(blob))
    program = json.loads(text)
    data = blob[start:]
    arrays = [
        (spec["name"], _array(spec, program["storages"], data), bool(spec.get("requires_grad")))
        for spec in program.get("tensors", [])
    ]
    calls = []
    for call in program["calls"]:
        args = [_prepare(arg, worker) for arg in call.get("args", ())]
        kwargs = {key: _prepare(arg, worker) for key, arg in call.get("kwargs", {}).items()}
        calls.append((worker.lookup(call["fn"]), args, kwargs, call["result"]))
    outputs = [_prepare(output, worker) for output in program.get("outputs", [])]
    backward = [
        (_prepare(entry["output"], worker), entry["gradient"])
        for entry in program.get("backward", [])
    ]
    leaves = [name for name, _, requires_grad in arrays if requires_grad]
    from_numpy = module.from_numpy
    is_tensor = worker.is_tensor

    def run():
        env = {}
        for name, array, requires_grad in arrays:
            tensor = from_numpy(array.copy())
            if requires_grad:
                tensor.requires_grad_()
            env[name] = tensor
        for function, args, kwargs, result in calls:
            env[result] = function(
                *[arg(env) for arg in args], **{key: arg(env) for key, arg in kwargs.items()}
            )
        results = []
        for output in outputs:
            value = output(env)
            for leaf in value if isinstance(value, (tuple, list)) else (value,):
                if is_tensor(leaf):
                    results.append(leaf.detach().numpy())
        if backward:
            module.autograd.backward(
                [output(env) for output, _ in backward], [env[name] for _, name in backward]
            )
            for name in leaves:
                gradient = env[name].grad
                if gradient is not None:
                    results.append(gradient.numpy())
        return results

    return run


def read_blobs(path):
    """Length-prefixed blobs of a file."""
    raw = Path(path).read_bytes()
    at = 0
    blobs = []
    while at < len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        blobs.append(raw[at + 8 : at + 8 + size])
        at += 8 + size
    return blobs


def main():
    name, path, repeats, results = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    worker = frameworks.make(
        {"framework": name, "device": "cpu", "options": {}, "threads": 1, "mapping": {}}
    )
    module = sys.modules[name]
    usable = []
    for index, blob in enumerate(read_blobs(path)):
        print(index, flush=True)
        try:
            run = compile_program(blob, worker, module)
            run()
        except Exception:
            continue
        usable.append((index, run))
    with Path(results).open("wb") as file:
        for _, run in usable:
            arrays = run()
            file.write(struct.pack("<Q", len(arrays)))
            for array in arrays:
                np.save(file, array, allow_pickle=False)
    started = time.process_time()
    for _ in range(repeats):
        for _, run in usable:
            run()
    seconds = time.process_time() - started
    print(json.dumps({"usable": [index for index, _ in usable], "cpu_seconds": seconds / repeats}))


if __name__ == "__main__":
    main()
