"""Lines of files: every archive, every ending, and nothing damaged goes by."""

import gzip
import hashlib
import lzma
import os
import random
import re
import sys

import pytest
import zstandard

from onenth.lab.data.files import digest, find, lines
from onenth.lab.errors import Problem

PACK = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".zst": zstandard.compress}
ARCHIVES = [".xz", ".gz", ".zst"]
every_ending = pytest.mark.parametrize("ending", PACK)
every_archive = pytest.mark.parametrize("ending", ARCHIVES)


@pytest.fixture
def file(tmp_path):
    def write(content, name="a.txt"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def assert_refused(path, where, what):
    with pytest.raises(Problem, match=f"^{re.escape(str(path))}{where}: .*{what}"):
        list(lines(path))


def long_text():
    """Lines of all lengths, some longer than what is read at once."""
    draw = random.Random(0)
    sizes = [draw.choice([0, 1, 40, 300]) for _ in range(1000)] + [100_000, 3, 0, 30_000]
    return ["".join(draw.choices("aé中𝄞 \t", k=size)) for size in sizes]


@every_ending
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_every_length_come_back(file, ending, end):
    rows = long_text()
    path = file(PACK[ending]("".join(row + end for row in rows).encode()), "a.txt" + ending)
    assert list(lines(path)) == rows


@pytest.mark.parametrize(
    ("content", "expected"),
    {
        b"a\nb": ["a", "b"],
        b"\n\na\n": ["", "", "a"],
        b"a\rb\x0bc\x0c\x1c\x85"[:-1] + "\x85\u2028\u2029\n".encode(): ["a\rb\x0bc\x0c\x1c\x85\u2028\u2029"],
        b"a\r\r\nb\r": ["a\r", "b"],
        "\ufeffa\n\ufeffb\n".encode(): ["a", "\ufeffb"],
    }.items(),
)
def test_only_newlines_end_lines_and_only_the_first_mark_goes(file, content, expected):
    assert list(lines(file(content))) == expected


@every_ending
@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"a\nb\xff\n", ":2", "byte 2 of the line, 0xff, is not UTF-8: .*iconv"),
        (b"\xef\xbb\xbfa\xe9\n", ":1", "byte 2 of the line, 0xe9, is not UTF-8: .*iconv"),
        (b"a\n\xe2\x80\n", ":2", "not UTF-8"),
        (b"a\nb\n\xed\xa0\x80", ":3", "not UTF-8"),
        (b"a\nb\0\n", ":2", "character 2 is NUL"),
        ("a\n".encode("utf-16"), ":1", "UTF-16: convert it with iconv"),
        (b"\xfe\xff" + "a\n".encode("utf-16-be"), ":1", "UTF-16: convert it with iconv"),
        (b"", "", "the file is empty"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(file, ending, content, where, what):
    assert_refused(file(PACK[ending](content), "a.txt" + ending), where, what)


@every_archive
@pytest.mark.parametrize("size", [5, 80_000])
def test_an_archive_cut_anywhere_is_refused(file, ending, size):
    whole = PACK[ending](random.Random(0).randbytes(size).hex().encode())
    places = range(1, len(whole)) if size < 10 else [1, len(whole) // 2, *range(len(whole) - 9, len(whole))]
    for kept in places:
        assert_refused(file(whole[:kept], "a.txt" + ending), "", "stops before its end: fetch it again")


@every_archive
def test_a_damaged_archive_is_refused(file, ending):
    options = zstandard.ZstdCompressor(write_checksum=True)
    content = random.Random(0).randbytes(99_000).hex().encode()
    whole = bytearray(options.compress(content) if ending == ".zst" else PACK[ending](content))
    whole[len(whole) // 2] ^= 255
    assert_refused(file(whole, "a.txt" + ending), "", f"damaged or no {ending} archive .*test it with")


@every_archive
def test_an_archive_by_name_alone_is_refused(file, ending):
    assert_refused(file(b"plain text, no archive\n", "a.txt" + ending), "", f"no {ending} archive")


@every_archive
def test_streams_may_follow_each_other_but_nothing_else_may(file, ending):
    one, two = PACK[ending](b"a\nb"), PACK[ending](b"c\nd\n")
    assert list(lines(file(one + two, "a" + ending))) == ["a", "bc", "d"]
    assert list(lines(file(one + bytes(8) + two + bytes(100_000), "a" + ending))) == ["a", "bc", "d"]
    assert_refused(file(one + b"here is something else", "a" + ending), "", "what follows its end is no")
    assert_refused(file(one + two[:-1], "a" + ending), "", "stops before its end")


def test_a_large_window_and_a_skippable_frame_of_zstd_are_read(file):
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = frame.compress(b"a\n") + frame.flush()
    assert list(lines(file(b"\x50\x2a\x4d\x18\x02\0\0\0zz" + packed, "a.zst"))) == ["a"]


def test_without_zstandard_the_package_is_named(file, monkeypatch):
    path = file(zstandard.compress(b"a\n"), "a.zst")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert_refused(path, "", "pip install zstandard")


@every_ending
def test_a_missing_file_and_a_folder_are_refused(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    assert_refused(path, "", "there is no such file")
    assert_refused(path / "b", "", "there is no such file")
    path.mkdir()
    assert_refused(path, "", "this is a folder")
    with pytest.raises(Problem, match="this is a folder"):
        digest(path)


def test_a_file_in_a_file_is_refused(file):
    assert_refused(file(b"a\n") / "b", "", "cannot be read")


def test_a_file_without_permission_is_refused(file, monkeypatch):
    path = file(b"a\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # as root

        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(type(path), "open", refuse)
    assert_refused(path, "", "no permission to read it: chmod")


def test_reading_is_a_stream(file):
    rows = lines(file(b"a\n" * 50_000 + b"\xff\n"))
    assert next(rows) == "a"
    rows.close()


@every_ending
def test_names_are_found_in_their_order(file, tmp_path, ending):
    later, first = file(b"", "val.tsv" + ending), file(b"", "dev.tsv" + ending)
    file(b"", "dev.tsv.bak")
    assert find(tmp_path, "dev.tsv", "val.tsv") == first
    assert find(tmp_path, "valid.tsv", "val.tsv") == later
    assert find(tmp_path, "test.tsv", "dev") is None


@every_archive
def test_a_name_twice_is_refused(file, tmp_path, ending):
    file(b"", "dev.tsv"), file(b"", "dev.tsv" + ending)
    with pytest.raises(Problem, match=rf"dev\.tsv and dev\.tsv\{ending} are both there: keep the one"):
        find(tmp_path, "dev.tsv")


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(Problem, match="no such folder"):
        find(tmp_path / "none", "a")


@every_ending
def test_the_digest_is_of_the_bytes_as_stored(file, ending):
    content = PACK[ending](random.Random(0).randbytes(200_000))
    assert digest(file(content, "a" + ending)) == hashlib.sha256(content).hexdigest()
