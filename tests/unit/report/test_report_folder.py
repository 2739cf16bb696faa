from __future__ import annotations

import json
import os
from pathlib import Path

import made_findings as made
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from bot.programs.dtypes import DTYPES
from bot.programs.program import decode, encode
from bot.report.bundle import FindingBundle, TargetOutcome
from bot.report.files import safe_name, unique_names, write_folder
from bot.report.finding_folder import FindingError, folder_name, load_finding, write_finding
from bot.report.results import read_results
from bot.report.rows import finding_row
from bot.report.tensor_files import read_tensor_file, tensor_file
from bot.report.write import write_report


@given(st.text())
def test_safe_name_is_one_plain_file_name(text: str) -> None:
    name = safe_name(text)
    assert 0 < len(name) <= 80
    assert name.isascii()
    assert not name.startswith((".", "-"))
    assert not set(name) & set("/\\\0: ")


@given(st.lists(st.text() | st.sampled_from(["a", "A", "a-2", "../a", ""])))
def test_unique_names_are_unique_without_case(texts: list[str]) -> None:
    names = unique_names(texts)
    assert len({name.lower() for name in names}) == len(texts) == len(names)


@pytest.mark.parametrize(
    "op", ["../../etc/passwd", "/root/x", "..", "a\0b", "a/../../b", ".git", "x" * 999]
)
def test_op_names_from_outside_stay_in_the_report(tmp_path: Path, op: str) -> None:
    bundle = made.doubled_bundle(op=op, fingerprint="../../f")
    written = write_finding(tmp_path / "out", bundle, made.TARGETS, made.RUN)
    folder = tmp_path / "out" / written.row.folder
    assert folder.resolve().parent == (tmp_path / "out" / "findings").resolve()
    assert (folder / "finding.json").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert folder_name(op, "../../f") == folder.name


def test_target_labels_from_outside_stay_in_the_folder(tmp_path: Path) -> None:
    bundle = made.doubled_bundle()
    first, second = bundle.outcomes
    outcomes = (
        TargetOutcome("../../evil", "torch", first.outcome),
        TargetOutcome("inputs", "torch", second.outcome),
        TargetOutcome('python="/a b/python":cpu', "torch", second.outcome),
    )
    written = write_finding(
        tmp_path, FindingBundle(bundle.finding, bundle.blob, outcomes), made.TARGETS, made.RUN
    )
    files = {path.name for path in (tmp_path / written.row.folder).iterdir()}
    assert files >= {"evil.safetensors", "inputs.safetensors", "inputs-2.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == {"findings"}


def test_folder_holds_what_is_promised_and_reads_back(tmp_path: Path) -> None:
    bundle = made.doubled_bundle()
    written = write_finding(tmp_path, bundle, made.TARGETS, made.RUN)
    folder = tmp_path / written.row.folder
    assert {path.name for path in folder.iterdir()} == {
        "finding.json", "program.opdiff", "program.json", "repro.py", "inputs.safetensors",
        "oneflow-pr-cpu.safetensors", "torch==2.13.0-cpu.safetensors",
    }  # fmt: skip
    loaded = load_finding(folder)
    assert loaded.blob == bundle.blob
    assert loaded.program == decode(bundle.blob)[0]
    assert loaded.record.finding == written.row
    assert loaded.record.targets == made.TARGETS
    assert loaded.record.run == made.RUN
    assert json.loads((folder / "program.json").read_bytes())["calls"][0]["fn"] == "mul"
    with safe_open(folder / "inputs.safetensors", "np") as file:
        assert file.get_tensor("x").tolist() == [1, 2, 3]
    with safe_open(folder / "oneflow-pr-cpu.safetensors", "np") as file:
        assert file.get_tensor("output r0").tolist() == [2, 5, 6]


def test_writing_again_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    for _ in range(3):
        report = write_report(tmp_path, made.results(), [made.doubled_bundle()])
    first = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    write_report(tmp_path, made.results(), [made.doubled_bundle()])
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == first
    assert report.path == tmp_path / "report.md"
    assert report.results == read_results(tmp_path / "results.json")
    assert list(report.scripts) == ["0123abcd"]
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "results.json", "findings"}
    assert [path.name for path in (tmp_path / "findings").iterdir()] == ["mul-0123abcd"]


def test_a_failed_write_leaves_the_old_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", {"a": b"old"})
    with pytest.raises(OSError):
        write_folder(tmp_path / "f", {"a": b"new", "no/such/folder": b""})
    assert (tmp_path / "f" / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_link_in_the_folders_place_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "f").symlink_to(tmp_path / "elsewhere")
    write_folder(tmp_path / "f", {"a": b"new"})
    assert not (tmp_path / "f").is_symlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_blob_that_is_no_program_is_reported_without_a_folder(tmp_path: Path) -> None:
    bundle = made.doubled_bundle()
    broken = FindingBundle(bundle.finding, b"\xff\xff\xff\xff", bundle.outcomes)
    write_report(tmp_path, made.results(), [broken])
    assert not (tmp_path / "findings").exists()
    assert "no folder was written" in (tmp_path / "report.md").read_text()


def test_why_a_finding_is_ignored_stays_when_its_folder_is_written(tmp_path: Path) -> None:
    row = finding_row(made.doubled_bundle().finding).model_copy(update={"ignored": "issue 12"})
    write_report(tmp_path, made.results(findings=(row,)), [made.doubled_bundle()])
    (written,) = read_results(tmp_path / "results.json").findings
    assert (written.fingerprint, written.ignored) == (row.fingerprint, "issue 12")
    assert written.folder


def written_folder(tmp_path: Path) -> Path:
    written = write_finding(tmp_path, made.doubled_bundle(), made.TARGETS, made.RUN)
    return tmp_path / written.row.folder


def assert_refused(folder: Path) -> None:
    with pytest.raises(FindingError) as caught:
        load_finding(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("name", ["finding.json", "program.opdiff"])
def test_links_pipes_and_missing_files_are_refused(tmp_path: Path, name: str) -> None:
    folder = written_folder(tmp_path)
    file = folder / name
    elsewhere = tmp_path / name
    file.rename(elsewhere)
    assert_refused(folder)
    file.symlink_to(elsewhere)
    assert_refused(folder)
    file.unlink()
    os.mkfifo(file)
    assert_refused(folder)


def test_linked_folder_is_refused(tmp_path: Path) -> None:
    folder = written_folder(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    assert_refused(tmp_path / "link")
    assert_refused(folder / "finding.json")
    assert_refused(tmp_path / "absent")


def test_enormous_record_is_not_read(tmp_path: Path) -> None:
    folder = written_folder(tmp_path)
    with (folder / "finding.json").open("wb") as file:
        file.truncate(100 << 20)
    assert_refused(folder)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "{}",
        "[" * 100_000,
        '{"schema_version": 2}',
        '{"schema_version": 99}',
        '{"schema_version": true}',
    ],
)
def test_hostile_record_is_refused(tmp_path: Path, text: str) -> None:
    folder = written_folder(tmp_path)
    (folder / "finding.json").write_text(text)
    assert_refused(folder)


def test_another_program_than_the_records_is_refused(tmp_path: Path) -> None:
    folder = written_folder(tmp_path)
    program, data = decode((folder / "program.opdiff").read_bytes())
    other = program.model_copy(update={"seed": 1})
    (folder / "program.opdiff").write_bytes(encode(other, bytes(data)))
    assert_refused(folder)


def test_program_that_reaches_outside_its_data_is_refused(tmp_path: Path) -> None:
    folder = written_folder(tmp_path)
    blob = (folder / "program.opdiff").read_bytes()
    (folder / "program.opdiff").write_bytes(blob.replace(b'"nbytes":12', b'"nbytes":99'))
    assert_refused(folder)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_dtype_keeps_its_bytes(dtype: str, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape)) * DTYPES[dtype].itemsize
    raw = bytes(i % 2 for i in range(size)) if dtype == "bool" else bytes(range(size))
    array = np.frombuffer(raw, DTYPES[dtype]).reshape(shape)
    stored = read_tensor_file(tensor_file([("output r0", dtype, array)]))
    assert stored["output r0"][0] == dtype
    assert stored["output r0"][1].shape == shape
    assert stored["output r0"][1].tobytes() == raw


def test_complex_is_stored_as_pairs_with_its_dtype_in_the_metadata(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(
        tensor_file([("r", "complex64", np.array([1 + 2j], np.complex64))])
    )
    with safe_open(tmp_path / "f", "np") as file:
        assert file.get_tensor("r").tolist() == [[1.0, 2.0]]
        assert file.metadata() == {"dtype of r": "complex64"}


def test_bfloat16_is_bfloat16(tmp_path: Path) -> None:
    array = np.array([1.5, -0.0, np.nan], ml_dtypes.bfloat16)
    assert b'"BF16"' in tensor_file([("r", "bfloat16", array)])
