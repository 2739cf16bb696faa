from __future__ import annotations

import os
from pathlib import Path

import made_findings as made
import pytest
from made_reports import FOLDER, bundle, report_of

from bot.report.files import FileError
from bot.report.folder_files import read_folder
from bot.report.read_back import ReportError, read_run
from bot.report.write import write_report


def test_a_folder_reads_as_its_files(tmp_path: Path) -> None:
    files = report_of(tmp_path)
    (tmp_path / "extra").write_bytes(b"x")
    read = read_folder(tmp_path)
    left_out = {"report.md", f"{FOLDER}/repro.py", f"{FOLDER}/program.json"}
    assert set(read) == set(files) - left_out
    assert dict(read) == {name: files[name] for name in read}
    assert read_run(read).results == read_run(files).results
    with pytest.raises(KeyError):
        read["extra"]
    with pytest.raises(KeyError):
        read["../x"]


def test_files_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    report_of(tmp_path)
    read = read_folder(tmp_path)
    (tmp_path / "results.json").write_bytes(b"later")
    assert read["results.json"] == b"later"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    report_of(tmp_path / "a")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_run(read_folder(tmp_path / "b")).results.findings[0].folder == FOLDER


@pytest.mark.parametrize("name", ["results.json", "findings", FOLDER, f"{FOLDER}/finding.json"])
def test_no_link_below_it_is_followed(tmp_path: Path, name: str) -> None:
    report_of(tmp_path / "a")
    place, elsewhere = tmp_path / "a" / name, tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    if name == "results.json":
        with pytest.raises(ReportError):
            read_run(read_folder(tmp_path / "a"))
    else:
        assert read_run(read_folder(tmp_path / "a")).results.findings[0].folder == ""


def test_a_link_put_in_place_after_the_look_is_not_followed(tmp_path: Path) -> None:
    report_of(tmp_path / "a")
    read = read_folder(tmp_path / "a")
    (tmp_path / "a" / "findings").rename(tmp_path / "elsewhere")
    (tmp_path / "a" / "findings").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError):
        read[f"{FOLDER}/finding.json"]


def test_pipes_and_huge_files_are_not_read(tmp_path: Path) -> None:
    report_of(tmp_path)
    record = tmp_path / FOLDER / "finding.json"
    record.unlink()
    os.mkfifo(record)
    (note,) = read_run(read_folder(tmp_path)).results.notes
    assert "is not a regular file" in note
    record.unlink()
    with record.open("wb") as file:
        file.truncate(1 << 40)
    (note,) = read_run(read_folder(tmp_path)).results.notes
    assert "bytes that are read" in note


@pytest.mark.parametrize("make", ["nothing", "file", "empty"])
def test_what_is_no_report_is_one_line(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "r"
    if make == "file":
        folder.write_bytes(b"")
    elif make == "empty":
        folder.mkdir()
    with pytest.raises(ReportError) as caught:
        read_run(read_folder(folder))
    assert "\n" not in str(caught.value)


def test_many_findings_are_read_one_by_one(tmp_path: Path) -> None:
    write_report(tmp_path, made.results(), (bundle(fingerprint=f"{i:08x}") for i in range(30)))
    run = read_run(read_folder(tmp_path))
    assert len(list(run.bundles())) == 30
    assert all(row.folder for row in run.results.findings)
