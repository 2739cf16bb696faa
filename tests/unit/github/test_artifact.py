"""Hostile zip files: each is refused in one line, quickly, in bounded memory."""

from __future__ import annotations

import contextlib
import io
import stat
import struct
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.github.artifact import ArtifactError, ArtifactLimits, read_zip

Entry = tuple[str | zipfile.ZipInfo, bytes]
SMALL = ArtifactLimits(
    archive=1 << 20, entries=100, entry=1 << 20, total=4 << 20, ratio=100, ratio_from=1 << 20
)


def zipped(entries: Iterable[Entry], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that come twice
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, data in entries:
                archive.writestr(name, data, method)
    return buffer.getvalue()


def entry(name: str, mode: int = 0, flags: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.flag_bits |= flags
    return info


def refused(raw: bytes, limits: ArtifactLimits | None = None, seconds: float = 2.0) -> str:
    """The one line that an archive is refused with, after what it cost was looked at."""
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(ArtifactError) as caught:
            read_zip(raw, limits)
        assert time.process_time() - began < seconds
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 400
    assert line.isascii()
    assert line.isprintable()
    return line


def test_what_is_in_a_zip_is_read() -> None:
    entries: list[Entry] = [("results.json", b"{}"), ("findings/a-1/x.safetensors", b"\0" * 5000)]
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        assert read_zip(zipped(entries, method)) == dict(entries)
    assert read_zip(zipped([("findings/", b""), *entries])) == dict(entries)
    assert read_zip(zipped([])) == {}


def test_only_what_is_wanted_is_decompressed() -> None:
    raw = zipped([("a", b"1"), ("b", b"\0" * (2 << 20))])
    assert read_zip(raw, SMALL, lambda name: name == "a") == {"a": b"1"}
    assert "b has more than" in refused(raw, SMALL)


def test_streamed_archives_as_upload_artifact_makes_them() -> None:
    """Sizes stand after the data there: a data descriptor, flag bit 3."""

    class Unseekable(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError

        def tell(self) -> int:
            raise OSError

    stream = Unseekable()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results.json", b"{}" * 100)
        with archive.open("zip64", "w", force_zip64=True) as file:
            file.write(b"x")
    raw = stream.getvalue()
    assert raw[6] & 8
    assert read_zip(raw) == {"results.json": b"{}" * 100, "zip64": b"x"}


@pytest.mark.parametrize(
    "name",
    [
        "../results.json", "findings/../../x", "/etc/passwd", "//x", "./x", "a/./b", "a//b", "..", ".", "...",
        "C:/x", "C:x", "a\\b", "..\\..\\x", "\\\\host\\x", "a\nb", "a\rb", "::error::x", "a\0b", "a\x1b[2Jb", "a b",
        "\u202etxt.exe", "r\u00e9sultats", "\uff0e\uff0e/x", "a\u2028b", "@everyone<script>", "x" * 300,
        "/".join("abcdefghijklmnop"), "$(id)", "`id`", "a|b", "~/x", "CON:",
    ],
)  # fmt: skip
def test_names_that_no_report_has(name: str) -> None:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name  # the constructor would cut at a NUL, and knows no backslash
    raw = zipped([("results.json", b"{}"), (info, b"x")])
    assert "name" in refused(raw)


def test_names_that_come_twice() -> None:
    assert "two entries" in refused(zipped([("a/b", b"1"), ("a/b", b"2")]))
    assert "two entries" in refused(zipped([("a/b", b"1"), ("A/B", b"2")]))
    assert "two entries" in refused(zipped([("a/b", b"1"), ("a/b/", b"")]))


@pytest.mark.parametrize(
    "mode",
    [stat.S_IFLNK | 0o777, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR],
)
def test_links_and_devices(mode: int) -> None:
    assert "neither a file nor a folder" in refused(zipped([(entry("x", mode), b"/etc/passwd")]))


def patched(raw: bytes, signature: bytes, offset: int, new: bytes) -> bytes:
    at = raw.rindex(signature) + offset
    return raw[:at] + new + raw[at + len(new) :]


CENTRAL, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


@pytest.mark.parametrize("flag", [0x0001, 0x0040, 0x2000, 0x0041])
def test_encrypted(flag: int) -> None:
    raw = patched(zipped([("x", b"1")]), CENTRAL, 8, struct.pack("<H", flag))
    assert "encrypted" in refused(raw)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(method: int) -> None:
    assert "another way" in refused(zipped([("x", b"1" * 100)], method))
    assert "another way" in refused(
        patched(zipped([("x", b"1")]), CENTRAL, 10, struct.pack("<H", 99))
    )


def test_bomb_of_one_entry() -> None:
    assert "x has more than" in refused(zipped([("x", b"\0" * (200 << 20))]))


def test_bomb_of_many_entries() -> None:
    entries = [(f"f{i}", b"\0" * (1 << 20)) for i in range(9)]
    assert "holds more than" in refused(zipped(entries), SMALL)


def test_bomb_by_ratio() -> None:
    raw = zipped([(f"f{i}", b"\0" * (32 << 20)) for i in range(3)])
    assert len(raw) < 200_000
    assert "100 times larger" in refused(raw)
    flat = ArtifactLimits(ratio=10_000)
    assert sum(map(len, read_zip(raw, flat).values())) == 96 << 20


def test_a_zip_in_a_zip_stays_bytes() -> None:
    inner = zipped([("x", b"\0" * (50 << 20))])
    assert read_zip(zipped([("inner.zip", inner)]))["inner.zip"] == inner


@pytest.mark.parametrize("claimed", [0, 1, 9_999, 10_001, 100_000_000])
def test_sizes_that_lie(claimed: int) -> None:
    raw = patched(zipped([("x", b"ab" * 5_000)]), CENTRAL, 24, struct.pack("<I", claimed))
    refused(raw)


def test_a_small_claim_before_a_large_content() -> None:
    """200 MB behind a claim of 10 bytes, whose checksum even fits: the claim is all that is decompressed."""
    data = b"\0" * (200 << 20)
    raw = patched(zipped([("x", data)]), CENTRAL, 24, struct.pack("<I", 10))
    refused(raw)
    raw = patched(raw, CENTRAL, 16, struct.pack("<I", zlib.crc32(data[:10])))
    tracemalloc.start()
    assert read_zip(raw) == {"x": data[:10]}
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_checksum_that_lies() -> None:
    refused(patched(zipped([("x", b"1")]), CENTRAL, 16, b"\0\0\0\0"))


def test_another_name_in_the_local_header() -> None:
    refused(patched(zipped([("xy", b"1")]), LOCAL, 30, b"zz"))


def test_overlapping_entries() -> None:
    """As in David Fifield's bomb: many directory rows that point to the same bytes."""
    raw = zipped([("a", bytes(i * 7 % 251 for i in range(60_000)))])
    at = raw.index(CENTRAL)
    end = raw.index(END)
    row = raw[at:end]
    rows = b"".join(row[:46] + bytes([97 + i]) for i in range(20))
    tail = raw[end:-14] + struct.pack("<HHIIH", 20, 20, len(rows), at, 0)
    assert "overlap" in refused(raw[:at] + rows + tail)


def test_a_hundred_thousand_entries() -> None:
    raw = zipped([(f"f{i}", b"") for i in range(100_000)], zipfile.ZIP_STORED)
    assert "60000 entries" in refused(raw)
    assert "60000 entries" in refused(raw[: len(raw) // 2] + raw)


def test_a_directory_that_is_longer_than_said() -> None:
    """The count at the end is a claim as well; what is parsed is every row that is there."""
    raw = zipped([(f"f{i}", b"") for i in range(200)], zipfile.ZIP_STORED)
    raw = patched(raw, END, 8, struct.pack("<HH", 1, 1))
    assert "100 entries" in refused(raw, SMALL)


@pytest.mark.parametrize("raw", [b"", b"PK", b"not a zip", b"\x1f\x8b\x08", b"%PDF", b"PK\x03\x04"])
def test_not_a_zip(raw: bytes) -> None:
    refused(raw)


def test_bytes_before_a_zip() -> None:
    assert "not a zip" in refused(b"#!/bin/sh\n" + zipped([("x", b"1")]))


def test_an_archive_over_the_limit() -> None:
    assert "more than the 1048576 bytes" in refused(bytes((1 << 20) + 1), SMALL)


def test_every_cut_is_refused() -> None:
    raw = zipped([("results.json", b"{}"), ("findings/a/finding.json", b'{"a": 1}' * 20)])
    for size in range(len(raw)):
        refused(raw[:size])


@pytest.mark.parametrize(
    ("offset", "new"),
    [
        (4, struct.pack("<HH", 7, 7)),
        (12, struct.pack("<I", 0xFFFFFFFF)),
        (16, struct.pack("<I", 0xFFFFFFFF)),
        (16, struct.pack("<I", 0)),
        (12, struct.pack("<I", 3)),
        (20, struct.pack("<H", 60_000)),
    ],
)
def test_an_end_that_lies(offset: int, new: bytes) -> None:
    raw = patched(zipped([("x", b"1" * 50)]), END, offset, new)
    try:
        assert read_zip(raw) == {"x": b"1" * 50}
    except ArtifactError:
        refused(raw)


@pytest.mark.parametrize("size", [1 << 40, (1 << 64) - 1, 1 << 63])
@pytest.mark.parametrize("field", [0, 1, 2])
def test_zip64_lies(size: int, field: int) -> None:
    """The three fields of a zip64 extra: size, compressed size, offset of the local header."""
    info = zipfile.ZipInfo("x")
    claims = [1, 1, 0]
    claims[field] = size
    info.extra = struct.pack("<HHQQQ", 1, 24, *claims)
    raw = zipped([(info, b"1")], zipfile.ZIP_STORED)
    at = raw.rindex(CENTRAL)
    for offset in (20, 24, 42):
        raw = raw[: at + offset] + b"\xff" * 4 + raw[at + offset + 4 :]
    refused(raw)


def test_a_zip64_end_that_lies() -> None:
    raw = zipped([("x", b"1")])
    end = raw.rindex(END)
    far = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 62, 1 << 62)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    refused(raw[:end] + far + locator + raw[end:])


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06"]))
def test_any_bytes(raw: bytes, start: bytes) -> None:
    with contextlib.suppress(ArtifactError):
        assert read_zip(start + raw, SMALL) == {}


REAL = zipped([("results.json", b"{}" * 50), ("findings/a-1/finding.json", b"[1, 2]" * 30)])


@settings(deadline=None, max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 255)), max_size=8))
def test_any_mutation(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(REAL)
    for at, value in changes:
        raw[at] = value
    with contextlib.suppress(ArtifactError):
        files = read_zip(bytes(raw), SMALL)
        assert sum(map(len, files.values())) <= SMALL.total
        assert all(not name.startswith("/") and ".." not in name.split("/") for name in files)
