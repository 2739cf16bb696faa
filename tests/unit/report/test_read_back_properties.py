"""Whatever a run left, reading and writing it anew ends in a report or in one line, never in anything else."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_reports import BUNDLES, files_of, named, report_of

from bot.programs.program import canonical_json, split
from bot.report.read_back import ReportError, RunReport, is_read, read_run
from bot.report.write import write_report

hostile: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, 0, -1, 1, 2, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63), 0.5, 1e308, -0.0, "", "x", "nan",
        "../../x", "@team", "</details><script>", "```\n::error::x", "\x1b[2J", "\u202e", "a\nb", "\udc80", "'); import os",
        '"""', "{{ 7 * 7 }}", "x" * 4_000, [], [[]], [0], [1] * 70, {}, {"ref": "x"}, {"ref": "r0", "path": [0]}, {"fn": "os.system"},
        {"float": "nan"}, {"complex": [1, "inf"]}, {"dtype": "float32"}, {"device": "cuda"}, {"tuple": [1]}, {"generator": 1},
        "float16", "bool", "complex64", "int64", "crash", "ok", "exception", "nondeterminism", "dtype", "gradient", "side-effect",
        "nn.Module.__call__", "nn.Conv2d", "Tensor.T.__get__", "torch", "oneflow", "jax", "opinfo", "SIGFPE: x", "exit 999: y",
    ]
)  # fmt: skip


def leaves(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to everything in a JSON document."""
    found = [path] if path else []
    items: Any = ()
    if isinstance(document, dict):
        items = cast("dict[str, Any]", document).items()
    elif isinstance(document, list):
        items = enumerate(cast("list[Any]", document))
    for key, inner in items:
        found += leaves(inner, (*path, key))
    return found


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


def survives(files: dict[str, bytes]) -> None:
    """A report that can be written anew, or one line."""
    try:
        run = read_run(files)
    except ReportError as error:
        line = str(error)
    else:
        line = ""
        write_and_read(run)
    assert "\n" not in line
    assert len(line) < 1_000


def write_and_read(run: RunReport) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_report(Path(folder), run.results, run.bundles())
        again = read_run(files_of(Path(folder)))
    assert [row.fingerprint for row in again.results.findings] == [
        row.fingerprint for row in run.results.findings
    ]
    # A folder is named anew, after what the finding says of itself.
    assert [bool(row.folder) for row in again.results.findings] == [
        bool(row.folder) for row in run.results.findings
    ]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    return [report_of(tmp_path_factory.mktemp("r"), bundle) for bundle in BUNDLES.values()]


relaxed = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@relaxed
@given(st.data())
def test_other_bytes(reports: list[dict[str, bytes]], data: st.DataObject) -> None:
    files = dict(data.draw(st.sampled_from(reports)))
    name = data.draw(st.sampled_from(sorted(filter(is_read, files))))
    raw = bytearray(files[name])
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=3)):
        raw[at] = data.draw(st.integers(0, 255))
    files[name] = bytes(raw[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))])
    survives(files)


@relaxed
@given(st.data())
def test_other_values_that_the_files_agree_on(
    reports: list[dict[str, bytes]], data: st.DataObject
) -> None:
    """A lie told consistently, in results.json and finding.json alike."""
    files = dict(data.draw(st.sampled_from(reports)))
    record_name = next(name for name in files if name.endswith("finding.json"))
    results, record = (json.loads(files[name]) for name in ("results.json", record_name))
    for _ in range(data.draw(st.integers(1, 3))):
        value = copy.deepcopy(data.draw(hostile))  # it is changed below
        if data.draw(st.booleans()):
            path = data.draw(st.sampled_from(leaves(record["finding"])))
            replaced(record["finding"], path, value)
            results["findings"][0] = record["finding"] | {"ignored": None}
        else:
            document = data.draw(st.sampled_from([record, results]))
            replaced(document, data.draw(st.sampled_from(leaves(document))), value)
        if not isinstance(record.get("finding"), dict) or not isinstance(
            results.get("findings"), list
        ):
            break
    files |= {
        record_name: json.dumps(record).encode(),
        "results.json": json.dumps(results).encode(),
    }
    survives(files)


@relaxed
@given(st.data())
def test_other_programs_under_their_right_digest(
    reports: list[dict[str, bytes]], data: st.DataObject
) -> None:
    files = dict(data.draw(st.sampled_from(reports)))
    blob = next(raw for name, raw in files.items() if name.endswith("program.opdiff"))
    text, rest = split(blob)
    program = json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        replaced(
            program, data.draw(st.sampled_from(leaves(program))), copy.deepcopy(data.draw(hostile))
        )
    text = canonical_json(program)
    head = len(text).to_bytes(4, "little") + text
    survives(named(files, head + b"\0" * (-len(head) % 64) + bytes(rest)))
