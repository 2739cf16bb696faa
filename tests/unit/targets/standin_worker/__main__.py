"""A worker without a framework: standard library only, and it does what each program's JSON tells it to.

Run as ``python standin_worker --in FD --out FD``, as the real one is. Programs are ``{"do": WHAT, ...}``.
"""

import ctypes
import json
import os
import signal
import socket
import struct
import sys
import time

PREFIX = struct.Struct("<IQ")


def read(stream, size):
    data = stream.read(size)
    if len(data) != size:
        sys.exit(0)
    return data


def frame(stream):
    header_size, payload_size = PREFIX.unpack(read(stream, PREFIX.size))
    return json.loads(read(stream, header_size)), read(stream, payload_size)


def send(out, header, payload=b""):
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    out.write(PREFIX.pack(len(text), len(payload)) + text + payload)
    out.flush()


def outcome(number, values=(), payload=b""):
    return {
        "type": "outcome", "id": number, "status": "ok", "phase": "backward", "call": None, "error": None,
        "tensors": [], "values": [["output", "r", [], value] for value in values], "absent": [],
    }  # fmt: skip


def die(name):
    number = getattr(signal, name)
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL,) else None
    os.kill(os.getpid(), number)
    time.sleep(60)


def eat(megabytes):
    held = []
    for _ in range(megabytes):
        held.append(b"x" * (1 << 20))
    return held


def refused(attempt):
    """What became of an attempt: the error's name, or that it worked."""
    try:
        return "worked: %r" % (attempt(),)
    except BaseException as error:
        return type(error).__name__


def read_file(path):
    with open(path, "rb") as file:
        return file.read(200).decode("latin-1")


def write_file(path):
    with open(path, "ab") as file:
        if not path.startswith("/proc"):  # opening is proof enough; writing would do harm
            file.write(b"written by the worker")


def fill(path, megabytes):
    with open(path, "wb") as file:
        try:
            for _ in range(megabytes):
                file.write(b"x" * (1 << 20))
        finally:
            os.unlink(path)


def connect(host, port):
    with socket.create_connection((host, port), timeout=2) as connection:
        return connection.getpeername()


ATTEMPTS = {
    "read": read_file,
    "write": write_file,
    "fill": fill,
    "list": os.listdir,
    "connect": connect,
    "kill": lambda pid: os.kill(pid, signal.SIGTERM),
    "processes": lambda: sorted(int(n) for n in os.listdir("/proc") if n.isdigit()),
    "unix": lambda path: socket.socket(socket.AF_UNIX).connect(path),
    "abstract": lambda name: socket.socket(socket.AF_UNIX).connect("\0" + name),
    "ids": lambda: [os.getuid(), os.getgid(), os.getgroups()],
    "status": lambda: read_status(),
    "environ": lambda: dict(os.environ),
    "parent_environ": lambda: read_file("/proc/%d/environ" % os.getppid()),
    "setuid": lambda: os.setuid(0),
    "mount": lambda: mount(),
    "unshare": lambda: unshare(),
    "ptrace": lambda pid: ptrace(pid),
    "cwd": os.getcwd,
    "path": lambda: sys.path,
    "interfaces": lambda: [name for _, name in socket.if_nameindex()],
    "hostname": socket.gethostname,
    "limits": lambda: read_limits(),
    "fds": lambda: {
        fd: refused(lambda: os.readlink("/proc/self/fd/" + fd))
        for fd in os.listdir("/proc/self/fd")
    },
    "import": lambda name: __import__(name).__name__,
    "pid": os.getpid,
    "memory_file": lambda: os.close(os.memfd_create("x")),
    "shared_segment": lambda: shared_segment(),
}


def read_limits():
    import resource

    names = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NPROC")
    return [resource.getrlimit(getattr(resource, name))[0] for name in names]


def read_status():
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return {
        name: fields[name].strip()
        for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
    }


def libc_call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def shared_segment():
    """shmget and removal (IPC_PRIVATE, IPC_RMID are both 0)."""
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(0, 4096, 0o600)
    if segment < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    libc.shmctl(segment, 0, None)


def mount():
    libc_call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)


def unshare():
    libc_call("unshare", 0x10000000)


def ptrace(pid):
    libc_call("ptrace", 16, pid, 0, 0)


def spawn_sleepers():
    """A child in the group, one in a session of its own, and one whose parent is gone."""
    pids = []
    for leave in (False, True):
        pid = os.fork()
        if pid == 0:
            if leave:
                os.setsid()
                if os.fork():
                    os._exit(0)
            time.sleep(300)
            os._exit(0)
        pids.append(pid)
    return pids


def run(number, program, out):
    do = program["do"]
    answer = outcome(number)
    if "say" in program:
        print(program["say"], file=sys.stderr, flush=True)
    if do == "answer":
        send(out, outcome(number, [program.get("value")]), b"")
    elif do == "payload":
        send(out, answer, b"p" * program["bytes"])
    elif do == "payload_if":  # large if its target has the option, else slow
        if program["option"] in run.options:
            send(out, answer, b"p" * program["bytes"])
        else:
            time.sleep(program["seconds"])
            send(out, answer)
    elif do == "sleep":
        time.sleep(program["seconds"])
        send(out, answer)
    elif do == "die":
        die(program["signal"])
    elif do == "die_once":  # dies unless it is the first program of its worker
        if run.answered:
            die(program["signal"])
        send(out, answer)
    elif do == "die_if":  # dies if its target has the option
        if program["option"] in run.options:
            die(program["signal"])
        send(out, answer)
    elif do == "exit":
        os._exit(program["status"])
    elif do == "hang":
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        while True:
            time.sleep(60)
    elif do == "spin":
        while True:
            pass
    elif do == "eat":
        held = eat(program["megabytes"])
        time.sleep(program.get("seconds", 30))
        send(out, answer)
        del held
    elif do == "eat_in_child":
        if os.fork() == 0:
            held = eat(program["megabytes"])
            time.sleep(60)
        time.sleep(30)
        send(out, answer)
    elif do == "flood":
        block = b"y" * 65536
        for _ in range(program["megabytes"] * 16):
            os.write(1, block)
            os.write(2, block)
        os.write(2, b"\nend of the flood\n")
        send(out, answer)
    elif do == "babble":  # prints without end and never answers
        while True:
            os.write(2, b"babble babble\n" * 100)
    elif do == "trickle":  # a frame that never ends
        out.write(PREFIX.pack(10, 1 << 29))
        while True:
            out.write(b"x")
            out.flush()
            time.sleep(0.01)
    elif do == "children":
        send(out, outcome(number, [spawn_sleepers()]))
    elif do == "close_pipe":
        os.close(out.fileno())
        time.sleep(300)
    elif do == "raw":
        out.write(bytes.fromhex(program["hex"]))
        out.flush()
        time.sleep(program.get("seconds", 300))
    elif do == "raw_if":  # these bytes if its target has the option
        if program["option"] in run.options:
            out.write(bytes.fromhex(program["hex"]))
            out.flush()
        else:
            send(out, answer)
    elif do == "half_frame":
        text = json.dumps(answer).encode()
        out.write(PREFIX.pack(len(text), 100) + text + b"half")
        out.flush()
        os._exit(0)
    elif do == "wrong_id":
        send(out, outcome(program["id"]))
        time.sleep(300)
    elif do == "twice":
        send(out, answer)
        send(out, answer)
    elif do == "retire":  # answers, then asks to be replaced
        send(out, answer)
        send(out, {"type": "retired"})
        sys.exit(0)
    elif do == "many":
        for extra in range(1000):
            send(out, outcome(number + extra))
    elif do == "attempt":
        result = refused(lambda: ATTEMPTS[program["what"]](*program.get("arguments", [])))
        send(out, outcome(number, [result]))
    else:
        raise ValueError(do)
    run.answered += 1


run.answered = 0
run.options = {}


def main():
    source = os.fdopen(int(sys.argv[sys.argv.index("--in") + 1]), "rb")
    out = os.fdopen(int(sys.argv[sys.argv.index("--out") + 1]), "wb")
    hello, _ = frame(source)
    run.options = hello["options"]
    start = run.options.get("start", "")
    if start == "die":
        print("no such library: libnothing.so", file=sys.stderr, flush=True)
        os._exit(1)
    if start == "hang":
        time.sleep(300)
    if start.startswith("raw="):  # these bytes in place of its first words
        out.write(bytes.fromhex(start[4:]))
        out.flush()
        time.sleep(300)
    if start == "failed":
        send(out, {"type": "failed", "reason": "no framework here"})
        return
    if start.startswith("once="):  # dies at its first start only
        if not os.path.exists(start[5:]):
            open(start[5:], "w").close()
            die("SIGSEGV")
    if start.startswith("log="):
        with open(start[4:], "a") as log:
            log.write("start\n")
    if hello["options"].get("slow"):
        time.sleep(float(hello["options"]["slow"]))
    send(out, {
        "type": "ready", "framework": hello["framework"], "version": "1.0", "pid": os.getpid(),
        "python": sys.version.split()[0], "hello": hello, "home": os.environ["HOME"],
        "compiles": "compiles" in run.options,
    })  # fmt: skip
    if start.startswith("unasked="):  # an outcome that nobody asked for
        send(out, outcome(int(start[8:])))
    while True:
        header, payload = frame(source)
        if header["type"] == "stop":
            return
        at = 0
        for number, size in header["programs"]:
            run(number, json.loads(payload[at : at + size]), out)
            at += size


if __name__ == "__main__":
    main()
