"""Hostile reports: each is told in one line, quickly, in bounded memory, and no finding is lost by its folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import made_findings as made
import pytest
from made_reports import FOLDER, bundle, changed, files_of, named, number, peak, report_of

from bot.programs.program import Call, Origin, Program, Storage, TensorSpec, digest, encode
from bot.report.read_back import ReportError, read_run
from bot.report.results import dump_results
from bot.report.rows import finding_row
from bot.report.write import write_report


def notes_of(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """What reading says of a report whose one finding has no folder that can be used."""
    run = read_run(files)
    (row,) = run.results.findings
    assert (row.fingerprint, row.op, row.folder) == ("0123abcd", "mul", "")
    (read,) = run.bundles()
    assert read.blob == b""
    assert finding_row(read.finding) == row
    for note in run.results.notes:
        assert "\n" not in note
        assert len(note) < 1_000
    return run.results.notes


@pytest.mark.parametrize(
    "name", ["finding.json", "program.opdiff", "oneflow-pr-cpu.safetensors", ""]
)
def test_a_finding_without_its_files_is_kept(tmp_path: Path, name: str) -> None:
    files = {
        path: raw
        for path, raw in report_of(tmp_path).items()
        if not path.startswith(f"{FOLDER}/{name}")
    }
    (note,) = notes_of(files)
    assert note.startswith("mul (0123abcd) has no folder: there is no findings/mul-0123abcd/")


@pytest.mark.parametrize(
    "folder",
    [
        "../first", "/etc", "findings", "findings/", "findings/..", "findings/../..", "findings/.git", "findings/a/b",
        "findings/a\\b", "findings/-x", "findings/a\nb", "FINDINGS/mul-0123abcd", "findings/\u202e", "x", "C:/x",
    ],
)  # fmt: skip
def test_folders_are_plain_names_below_findings(tmp_path: Path, folder: str) -> None:
    files = report_of(tmp_path)
    files["results.json"] = changed(files["results.json"], findings__0__folder=folder)
    (note,) = notes_of(files)
    assert "is not the name of a finding's folder" in note


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("finding__op", "add"), ("finding__verdict", "upstream"), ("finding__count", 2), ("finding__blamed", []),
        ("finding__folder", ""), ("finding__evidence", []), ("finding__status", None),
        ("outcomes__0__target", "torch==9:cpu"), ("outcomes__0__framework", "torch"), ("outcomes__0__role", "peer"),
        ("outcomes__0__tensors", "../../x.safetensors"), ("outcomes__0__tensors", ""),
        ("outcomes__0__tensors", "program.opdiff"), ("outcomes__1__tensors", "oneflow-pr-cpu.safetensors"),
        ("outcomes__0__observed", []), ("outcomes__0__observed__0__name", "r1"), ("outcomes__0__device", "cpu'); x"),
        ("outcomes__0__status", "fine"), ("outcomes__0__observed__0__role", "x"), ("threads", 0), ("threads", 1 << 40),
        ("hang_seconds", -1), ("hang_seconds", 1e300), ("memory_bytes", 0), ("schema_version", 1), ("bounds", [1]),
        ("extra", 1), ("witness", {}),
    ],
)  # fmt: skip
def test_a_record_that_does_not_agree(tmp_path: Path, field: str, value: Any) -> None:
    files = report_of(tmp_path)
    name = f"{FOLDER}/finding.json"
    files[name] = changed(files[name], **{field: value})
    (note,) = notes_of(files)
    assert note.startswith("mul (0123abcd) has no folder: ")


def test_another_program_than_its_digest(tmp_path: Path) -> None:
    files = report_of(tmp_path)
    files[f"{FOLDER}/program.opdiff"] = number().blob
    assert "is not the program that finding.json names" in notes_of(files)[0]


@pytest.mark.parametrize(
    "fn",
    [
        "os.system", "load", "hub.load", "Tensor.__init__", "Tensor.__reduce_ex__", "builtins.exec", "x(); import os",
        "torch.os.system", "torch.nn.Linear.__init__", "evil.nn.Module", "oneflow.nn.functional.relu", "",
        "torch.nn.\u00c9vil",
    ],
)  # fmt: skip
def test_programs_call_public_tensor_ops_alone(tmp_path: Path, fn: str) -> None:
    files = report_of(tmp_path)
    for arguments in ((fn, []), ("mul", [{"tuple": [{"dict": [["k", {"fn": fn}]]}]}])):
        call = Call(fn=arguments[0], args=arguments[1], result="r0")
        program = Program(op="mul", calls=[call], outputs=[], origin=Origin(source="opinfo"))
        (note,) = notes_of(named(files, encode(program, b"")))
        assert "is not the name of a public tensor op" in note


def large(shape: list[int], copies: int = 1) -> bytes:
    """A program of four bytes of data whose tensors, written out, are of any size."""
    tensors = [
        TensorSpec(name=f"x{i}", dtype="float32", shape=shape, strides=[0] * len(shape), storage=0)
        for i in range(copies)
    ]
    call = Call(fn="mul", args=[{"ref": "x0"}, 2], result="r0")
    program = Program(
        op="mul",
        storages=[Storage(offset=0, nbytes=4)],
        tensors=tensors,
        calls=[call],
        outputs=[{"ref": "r0"}],
        origin=Origin(source="opinfo"),
    )
    return encode(program, b"\0" * 64)


@pytest.mark.parametrize(("shape", "copies"), [([1 << 26], 1), ([1 << 20], 40), ([1], 3_000)])
def test_programs_that_grow_when_written_out(tmp_path: Path, shape: list[int], copies: int) -> None:
    files = named(report_of(tmp_path), large(shape, copies))
    assert peak(lambda: notes_of(files)) < 64 << 20


def test_programs_that_grow_together(tmp_path: Path) -> None:
    """Each within its bound of 128 MiB written out, forty of them over 2 GiB: the last ones get no folder."""
    blob = large([1 << 24], 1)
    write_report(tmp_path, made.results(), [bundle(fingerprint=f"{i:08x}") for i in range(40)])
    files = files_of(tmp_path)
    document = json.loads(files["results.json"])
    for row in document["findings"]:
        row["program"] = digest(blob)
        record = f"{row['folder']}/finding.json"
        files[record] = changed(files[record], finding__program=digest(blob))
        files[f"{row['folder']}/program.opdiff"] = blob
    files["results.json"] = json.dumps(document).encode()
    rows = read_run(files).results.findings
    assert [bool(row.folder) for row in rows] == [True] * 32 + [False] * 8


def refused(raw: bytes) -> str:
    """The one line that a results file is refused with."""
    lines: list[str] = []

    def read() -> None:
        with pytest.raises(ReportError) as caught:
            read_run({"results.json": raw})
        lines.append(str(caught.value))

    assert peak(read) < 64 << 20
    (line,) = lines
    assert "\n" not in line
    assert len(line) < 700
    return line


def results_with(**fields: Any) -> bytes:
    return changed(dump_results(made.results()), **fields)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"PK\x03\x04", b"[]", b"null", b"\xff\xfe{}", b"[" * 1_000_000, b'{"a":' * 1_000_000,
        b"{" + b" " * (100 << 20) + b"}", b'{"a": [' + b"[]," * (20 << 20) + b"[]]}",
        b'{"schema_version": 2, "a": NaN}', b'{"schema_version": 2, "a": -Infinity}',
        b'{"schema_version": ' + b"9" * 5_000 + b"}", b'{"schema_version": 99999999999999999999999}',
        results_with(schema_version=1), results_with(schema_version=3), results_with(schema_version=True),
        results_with(notes=["x" * 10_000_000]), results_with(run__opdiff="x" * 10_000_000),
        results_with(counts__cases=1 << 64), results_with(counts__cases=-1), results_with(run__seed=10**19 * 2),
        results_with(result="fine"), results_with(findings=[{}]), results_with(targets=[{}] * 101), results_with(x=1),
        results_with(counts__cases=1).replace(b'"cases": 1', b'"cases": 1e999'),
    ],
    ids=range(26),
)  # fmt: skip
def test_hostile_results(raw: bytes) -> None:
    refused(raw)


HEAD = b'{"schema_version": 2, "result": "clean", "run": {"opdiff": "1"}, '


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + b'"x": [' + b"[]," * 499_000 + b"[]]}",
        HEAD + b'"x": [' + b"{}," * 499_000 + b"{}]}",
        HEAD + b'"notes": [' + b'"aaaaaaaaaaaaaaaaaaaa",' * 990_000 + b'""]}',
        HEAD + b'"findings": [' + b"{}," * 490_000 + b"{}]}",
        HEAD + b'"coverage": [' + b'{"op": "", "tested": true},' * 300_000 + b"{}]}",
        HEAD + b'"x": {' + b",".join(b'"%d": 1' % i for i in range(900_000)) + b"}}",
    ],
    ids=["lists", "objects", "texts", "rows that miss all", "more rows than are read", "keys"],
)
def test_the_most_values_that_are_parsed_take_bounded_memory(raw: bytes) -> None:
    """Measured from outside: the parser's own memory counts too. Texts take most, 290 MiB where this was written."""
    child = (
        "import resource, sys\n"
        "from bot.report.read_back import ReportError, read_run\n"
        "raw = sys.stdin.buffer.read()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: read_run({'results.json': raw})\n"
        "except ReportError: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", child], input=raw, capture_output=True, timeout=60)
    assert int(done.stdout) < 400 << 10


@pytest.mark.parametrize("fingerprint", ["", "../../x", "a" * 65, "0123ABCD", "xyz", "0123abcd\n"])
def test_fingerprints_are_hex(tmp_path: Path, fingerprint: str) -> None:
    raw = report_of(tmp_path)["results.json"]
    assert "not hex" in refused(changed(raw, findings__0__fingerprint=fingerprint))
    assert "digest" in refused(changed(raw, findings__0__program="0" * 31))


def test_a_finding_that_comes_twice(tmp_path: Path) -> None:
    raw = report_of(tmp_path)["results.json"]
    refused(changed(raw, findings=json.loads(raw)["findings"] * 2))


def test_no_results() -> None:
    with pytest.raises(ReportError, match=r"there is no results\.json"):
        read_run({})


def test_a_folder_that_changes_in_between_is_told(tmp_path: Path) -> None:
    files = report_of(tmp_path)
    run = read_run(files)
    files[f"{FOLDER}/program.opdiff"] = number().blob
    with pytest.raises(ReportError):
        list(run.bundles())
