"""OneFlow without threads of its own: every op runs on the calling thread.

OneFlow hands each op to a scheduler thread, which goes on polling for a millisecond after the last one. With programs
that come every few hundred microseconds it never sleeps: a second core at work, mostly on nothing. Without it the
same instructions run in the same order by the same engine, an error comes out of the very call that caused it, and a
death has no other op on its way.

Releases after 0.9 have a switch for this, ``ONEFLOW_VM_MULTI_THREAD``. Those up to 0.9 have the same mode, entered
when OneFlow shuts down, by the public method ``VirtualMachine::CloseVMThreads``; it is called here by its name in the
library. A build that has no such names keeps its threads, and everything works as before, only dearer.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

# Read by OneFlow when it is imported.
os.environ.setdefault("ONEFLOW_VM_MULTI_THREAD", "0")
# Where that is not known and the names neither: kernels on the scheduler, not on one more thread behind it.
os.environ.setdefault("ONEFLOW_VM_COMPUTE_ON_WORKER_THREAD", "0")

_MACHINE = "_ZZN7oneflow9SingletonINS_14VirtualMachineEvE7GetPPtrEvE3ptr"
_CLOSE = "_ZN7oneflow14VirtualMachine14CloseVMThreadsEv"
_RESULT_BYTES = 256
"""Room for the ``Maybe<void>`` that the method returns through a hidden first argument; it takes 32."""


def close_threads(oneflow: Any) -> bool:
    """End the scheduler's threads of an imported OneFlow, unless the variable asks for them; whether this was done."""
    if os.environ.get("ONEFLOW_VM_MULTI_THREAD") != "0":
        return False
    try:
        # With the interpreter's lock held, which the method itself lets go of while it waits.
        library = ctypes.PyDLL(oneflow._oneflow_internal.__file__)
        machine = ctypes.c_void_p.in_dll(library, _MACHINE).value
        method = getattr(library, _CLOSE)
    except (OSError, ValueError, AttributeError):
        return False
    if not machine:
        return False
    method.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    method.restype = ctypes.c_void_p
    result = ctypes.create_string_buffer(_RESULT_BYTES)
    method(ctypes.addressof(result), machine)
    closed = result.raw[0] == 1
    if closed:
        _do_not_close_again(oneflow)
    return closed


def _do_not_close_again(oneflow: Any) -> None:
    """Make OneFlow's exit hook leave the threads alone: closing what is closed is an error that it would print."""
    environment: Any = getattr(oneflow, "__oneflow_global_unique_env", None)
    if hasattr(environment, "switch_to_shutting_down"):
        switch = environment.switch_to_shutting_down
        environment.switch_to_shutting_down = lambda normal=True: switch(False)
