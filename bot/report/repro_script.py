"""``repro.py``: one finding as a script that needs the framework and NumPy alone, and exits 1 while the bug is there.

It is written for the blamed side's framework (the first target's when undecided) and carries the right values of the
other side, with the tolerance that the comparison used, so that one interpreter is enough: 1 on the candidate's, 0 on
the baseline's.
"""

from __future__ import annotations

import functools
import re
import signal
from typing import Any

import jinja2

from bot.oracle.finding import Finding
from bot.programs.program import Program, decode
from bot.report.bundle import FindingBundle
from bot.report.dialect import dialects
from bot.report.escape import comment
from bot.report.expectation import Expectation, ExpectedTensor, expect
from bot.report.form_code import EITHER
from bot.report.identifiers import Known
from bot.report.literals import array_code, carried
from bot.report.repro_code import ProgramCode, ReproError
from bot.report.script_check import passes
from bot.targets.op_mapping import OpMapping, load_op_mapping
from bot.targets.target import mode_of

REPEATS = 20
MAX_SCRIPT_BYTES = 32 << 20  # more is no script that anybody opens; `opdiff replay` needs none


def repro_script(bundle: FindingBundle) -> str:
    """The script's source. Raises ReproError when none can be written, ProgramError for a blob that is no program."""
    program, data = decode(bundle.blob)
    expectation = expect(bundle, program, data)
    framework = expectation.subject.framework
    dialect = dialects().get(framework)
    if dialect is None:
        raise ReproError(f"scripts for {framework!r} cannot be written yet")
    if mode := mode_of(expectation.subject.label):
        raise ReproError(
            f"a script runs the calls one by one, and this shows in the mode {mode}: `opdiff replay` runs it"
        )
    device, mapping = expectation.subject.device, _mapping(framework)
    known = _known_results(bundle, expectation)
    writer = ProgramCode(program, data, dialect, device, mapping, known)
    keys = [tensor.key for tensor in expectation.tensors]
    watched = [(name, path) for role, name, path in keys if role == "intermediate"]
    inputs, calls, backward = writer.inputs(), writer.calls(watched), writer.backward()
    observed = [
        (ascii(tensor.label), writer.observed(*tensor.key)) for tensor in expectation.tensors
    ]
    uses_growth = any(tensor.bound.growth for tensor in expectation.tensors)
    check_dtype = bundle.finding.kind == "dtype"
    expected = _expected_rows(expectation, uses_growth, check_dtype)
    setup = _setup(dialect.seed, dialect.threads, program.seed, bundle.threads)
    body = "\n".join([*inputs, *calls, *backward, *(row["code"] for row in expected)])
    fields: dict[str, Any] = {
        "title": comment(f"{bundle.finding.op}: {_headline(bundle.finding)}"),
        "story": _story(bundle, expectation, program),
        "module": dialect.module,
        "needs": _needs(dialect.module, writer.imports()),
        "framework_imports": writer.imports(),
        "definitions": writer.definitions(),
        "either": ascii(dialect.lacks) if re.search(rf"\b{EITHER}\(", "\n".join(calls)) else "",
        "to_numpy": dialect.to_numpy.format(x="value"),
        "imports": _imports(expectation, body),
        "uses_specials": re.search(r"\b(nan|inf)\b", body) is not None,
        "uses_stored": "stored(" in body,
        "setup": [*writer.setup(), *setup],
        "inputs": inputs or ["pass"],
        "calls": calls,
        "backward": backward,
        "observed": observed,
        "expected": expected,
        "exact_zeros": _needs_exact_zeros(expectation),
        "uses_growth": uses_growth,
        "contract": program.origin.random and bundle.finding.kind in ("value", "nan", "gradient"),
        "check_dtype": check_dtype,
        "mode": expectation.mode,
        "source": comment(expectation.source),
        "repeats": REPEATS,
        "death_test": _death_test(expectation),
        "limit": bundle.memory_bytes if expectation.mode == "memory" else bundle.hang_seconds,
    }
    source = "\n".join(line.rstrip() for line in _template().render(fields).split("\n"))
    if len(source) > MAX_SCRIPT_BYTES:
        raise ReproError(
            f"the script would have over {MAX_SCRIPT_BYTES >> 20} MiB: replay it instead"
        )
    try:
        compile(source, "repro.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ReproError(f"the script would not be Python: {problem}"[:200]) from None
    return source


def script_if_any(bundle: FindingBundle) -> str:
    """The script's source; empty where none can be written, and for a finding without a program."""
    try:
        return repro_script(bundle) if bundle.blob else ""
    except ReproError:
        return ""


@functools.cache
def _mapping(framework: str) -> OpMapping:
    return load_op_mapping(framework)


def _known_results(bundle: FindingBundle, expectation: Expectation) -> Known:
    """Dtype and shape of each result: the subject's own, else any other side's."""
    outcomes = [entry.outcome for entry in bundle.outcomes]
    known: dict[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...]]] = {}
    for outcome in (expectation.subject.outcome, *outcomes):
        for tensor in outcome.tensors:
            if tensor.role in ("output", "intermediate"):
                key = tensor.name, tensor.path
                known.setdefault(key, (tensor.dtype, tuple(tensor.array.shape)))
    return known


def _needs(module: str, imports: list[str]) -> str:
    """What must be installed, in words."""
    packages = dict.fromkeys([module, *(line.split()[1].split(".")[0] for line in imports)])
    packages.pop("numpy", None)
    return " and ".join([", ".join(packages), "NumPy"] if packages else ["NumPy"])


@functools.cache
def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("bot.report", "templates")
    # The output is Python, and every value that goes in is Python source already.
    environment = jinja2.Environment(
        loader=loader,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template("repro.py.j2")


def _headline(finding: Finding) -> str:
    who = {"candidate": "the candidate is wrong", "upstream": "the other framework is wrong"}
    return f"{finding.kind}, {who.get(finding.verdict, finding.verdict)} ({finding.confidence})"


def _setup(seed: str, threads: str, number: int, count: int) -> list[str]:
    lines = [seed.format(seed=int(number))]
    return [*lines, threads.format(threads=int(count))] if threads else lines


def _imports(expectation: Expectation, body: str) -> list[str]:
    wanted = {"sys", "traceback"}
    if f"{EITHER}(" in body:
        wanted |= {"re"}
    if "stored(" in body:
        wanted |= {"base64", "zlib"}
    if expectation.mode in ("crash", "hang", "memory"):
        wanted |= {"subprocess"}
    wanted |= {"signal"} if expectation.mode == "crash" else set()
    wanted |= {"time"} if expectation.mode == "memory" else set()
    return sorted(wanted)


def _story(bundle: FindingBundle, expectation: Expectation, program: Program) -> list[str]:
    lines = [f"Written for {comment(expectation.subject.label)}; op {comment(program.op)}."]
    for mismatch in bundle.finding.mismatches[:10]:
        lines.append(f"{comment(mismatch.label) or 'The whole call'}:")
        if mismatch.difference is not None and mismatch.difference.first_index is not None:
            d = mismatch.difference
            lines.append(
                f"    {d.differing} of {d.elements} elements differ, the first at {d.first_index}"
            )
        for seen in mismatch.observations[:10]:
            what = seen.happened or f"{seen.value} ({seen.dtype}, shape {seen.shape})"
            mark = "expected" if seen.target == expectation.source else "other side"
            wrong = (*bundle.finding.blamed, expectation.subject.label)
            mark = "observed" if seen.target in wrong else mark
            lines.append(f"    {mark}: {comment(what)}  [{comment(seen.target)}]")
    return lines


def _expected_rows(
    expectation: Expectation, uses_growth: bool, check_dtype: bool
) -> list[dict[str, str]]:
    if expectation.mode != "values":
        return []
    return [_expected_row(tensor, uses_growth, check_dtype) for tensor in expectation.tensors]


def _expected_row(tensor: ExpectedTensor, uses_growth: bool, check_dtype: bool) -> dict[str, str]:
    rule = [f"relative={tensor.bound.rtol!r}", f"absolute={tensor.bound.atol!r}"]
    if uses_growth:
        rule.append(f"growth={tensor.bound.growth!r}")
    if check_dtype:
        rule.insert(0, f"dtype={tensor.dtype!a}")
    code = array_code(carried(tensor.array, tensor.dtype))
    return {
        "label": ascii(tensor.label),
        "code": code.replace("\n", "\n        "),
        "rule": ", ".join(rule),
    }


def _needs_exact_zeros(expectation: Expectation) -> bool:
    """Whether only the sign of a zero tells the observed values from the right ones."""
    if expectation.mode != "values":
        return False
    seen = expectation.subject.outcome.by_key
    for tensor in expectation.tensors:
        own = seen.get(tensor.key)  # pyright: ignore[reportArgumentType]
        if own is None or own.array.shape != tensor.array.shape:
            return False
        if own.dtype != tensor.dtype:
            return False
        if not passes(
            carried(own.array, own.dtype), carried(tensor.array, own.dtype), tensor.bound
        ):
            return False
    return True


def _death_test(expectation: Expectation) -> str:
    """The condition on ``child.returncode`` that means the recorded death."""
    death = expectation.subject.outcome.death
    if expectation.mode != "crash" or death is None:
        return "False"
    exit_status = re.fullmatch(r"exit (\d{1,3})", death.signal)
    if exit_status is not None:
        return f"child.returncode == {int(exit_status[1])}"
    try:
        return f"child.returncode == -{int(signal.Signals[death.signal])}"
    except KeyError:
        return "child.returncode < 0"
