"""Files that a user names: whole files and lines up to their limits."""

import bz2
import gzip
import io
import lzma
import os

import cramjam
import pytest

from coterie.base import user_files
from coterie.base.user_files import (
    FileTooLarge,
    NotText,
    check_private,
    open_lines,
    read_bytes,
    read_limited,
    read_text,
)
from coterie.errors import ArgumentError


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_a_file_of_the_largest_size_is_read_and_a_longer_one_refused(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(size)))
    assert read_bytes(path, 10) == bytes(range(size))
    path.write_bytes(bytes(11))
    with pytest.raises(FileTooLarge, match="larger than 10 bytes; is this the right file"):
        read_bytes(path, 10)


def test_a_limit_of_a_mebibyte_is_written_so():
    for size, text in ((1 << 20, "1 MiB"), ((1 << 20) - 1, "1048575 bytes"), (5 << 20, "5 MiB")):
        with pytest.raises(FileTooLarge, match=f"larger than {text};"):
            read_limited(io.BytesIO(bytes(size + 1)), size)


def test_no_more_is_read_than_shows_that_a_file_is_too_large():
    sizes = []

    class Endless:
        def read(self, size):
            sizes.append(size)
            return bytes(size)

    with pytest.raises(FileTooLarge):
        read_limited(Endless(), (2 << 20) + 5)
    assert sizes == [1 << 20, 1 << 20, 6]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_have_a_greatest_length_with_or_without_their_end(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(user_files, "LINE_LENGTH_MAX", 8)
    path = tmp_path / f"file{suffix}"

    def write(text):
        with (gzip.open if suffix else open)(path, "wt", encoding="utf-8") as file:
            file.write(text)

    write("1234567\nab\n\n1234567")
    with open_lines(path) as lines:
        assert list(lines) == ["1234567\n", "ab\n", "\n", "1234567"]
    for last in ("12345678", "\n23456789"):
        write(f"a\n{last}\n")
        number = 2 + last.count("\n")
        too_long = pytest.raises(FileTooLarge, match=f"line {number} is longer than 8 bytes")
        with too_long, open_lines(path) as lines:
            list(lines)


def plain(data):
    return data


def zstd(data):
    return bytes(cramjam.zstd.compress(data))


@pytest.mark.parametrize("compress", [plain, gzip.compress, zstd, lzma.compress, bz2.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_text_is_read_by_its_first_bytes_whatever_the_name(tmp_path, compress, encoding, name):
    path = tmp_path / name
    path.write_bytes(compress("größe\n2\n".encode(encoding)))
    assert read_text(path) == "größe\n2\n"
    with open_lines(path) as lines:
        assert list(lines) == ["größe\n", "2\n"]
    path.write_bytes(compress(b""))
    assert read_text(path) == ""


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a\n\xe9\n", "not text: the byte 0xe9 is not UTF-8"),
        (b"\xff\xfea\0b", "not text: the byte 0x62 is not UTF-16"),
        (gzip.compress(b"a\n" * 100)[:20], "its compressed form is damaged"),
        (lzma.compress(b"a\n" * 100)[:-20], "its compressed form is damaged"),
        (lzma.compress(b"a\n")[:20] + bytes(20), "its compressed form is damaged"),
        (bz2.compress(b"a\n" * 100)[:-5], "its compressed form is damaged"),
        (bz2.compress(b"a\n")[:8] + bytes(20), "its compressed form is damaged"),
        (gzip.compress(b"a\n")[:-1] + b"x", "its compressed form is damaged"),
        (gzip.compress(b"a\n")[:4] + bytes(20), "its compressed form is damaged"),
    ],
)
def test_what_is_no_text_is_refused_in_words(tmp_path, data, says):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(NotText, match=says):
        read_text(path)
    with pytest.raises(NotText, match=says), open_lines(path) as lines:
        list(lines)


def test_text_is_as_large_as_without_its_compression(tmp_path, monkeypatch):
    monkeypatch.setattr(user_files, "FILE_BYTES_MAX", 100)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(bytes(100)))
    assert read_text(path) == "\0" * 100
    path.write_bytes(gzip.compress(bytes(101)))
    with pytest.raises(FileTooLarge, match="larger than 100 bytes"):
        read_text(path)


def test_a_private_file_is_read_by_its_owner_only_and_one_of_root_by_its_group(
    tmp_path, monkeypatch
):
    path = tmp_path / "secret"
    path.write_text("x")
    own = os.stat(path).st_uid
    for mode, user, refused in (
        (0o600, own, False), (0o400, own, False), (0o640, own, True), (0o604, own, True),
        (0o640, own + 1, own != 0), (0o604, own + 1, True), (0o620, own, True),
    ):  # fmt: skip
        path.chmod(mode)
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with open(path, "rb", buffering=0) as file:
            if refused:
                with pytest.raises(ArgumentError, match=f"^key: others may .* chmod 600 {path}"):
                    check_private(file, "key", path)
            else:
                check_private(file, "key", path)
