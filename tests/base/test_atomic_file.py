"""A file is written under a temporary name, and a short end is not interrupted."""

import errno
import os
import signal
import stat
import threading

import pytest

from coterie.base.atomic_file import (
    OutputError,
    atomic_write,
    check_file,
    check_folder,
    signals_ignored,
    use_umask,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def received():
    """The signals that a handler of this process got."""
    numbers = []

    def handle(number, frame):
        numbers.append(number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigint_and_sigterm_are_ignored_within_the_block_alone(received):
    def fail():
        for number in SIGNALS:
            signal.raise_signal(number)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), signals_ignored():
        fail()
    assert received == []
    for number in SIGNALS:
        signal.raise_signal(number)
    assert received == [*SIGNALS]


def test_a_handler_that_python_does_not_know_stays(received, monkeypatch):
    """``getsignal`` returns None for one that a program set which embeds Python."""
    known = signal.getsignal
    monkeypatch.setattr(
        signal, "getsignal", lambda number: None if number == signal.SIGTERM else known(number)
    )
    with signals_ignored():
        for number in SIGNALS:
            signal.raise_signal(number)
    assert received == [signal.SIGTERM]


def test_another_thread_than_the_main_one_handles_no_signals(received):
    ran = []

    def run():
        with signals_ignored():
            ran.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ran == [True]


def test_a_file_is_private_and_of_a_hidden_name_until_it_is_whole(tmp_path):
    target = tmp_path / "out"
    with atomic_write(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".out.")
        temporary.write_text("new")
        assert not target.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert target.read_text() == "new"


def test_a_failure_leaves_nothing_also_if_the_file_is_gone(tmp_path):
    def fail(temporary, goes):
        if goes:
            temporary.unlink()
        raise ZeroDivisionError

    for goes in (False, True):
        with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "out") as temporary:
            fail(temporary, goes)
        assert list(tmp_path.iterdir()) == []


def test_the_last_check_of_a_whole_file_can_prevent_it(tmp_path):
    target = tmp_path / "out"
    target.write_text("theirs")

    def check():
        raise OutputError("no")

    with pytest.raises(OutputError, match="no"), atomic_write(target, check) as temporary:
        temporary.write_text("ours")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert target.read_text() == "theirs"


def test_the_first_entry_that_is_not_ours_is_named(tmp_path):
    for name in ("d", "b", "f", "ours", "a", "c", "e"):
        (tmp_path / name).touch()
    with pytest.raises(OutputError, match=r"--overwrite would delete a, which"):
        check_folder(tmp_path, overwrite=True, is_output=lambda entry: entry.name == "ours")


def test_the_empty_folder_in_which_one_works_may_be_an_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_folder(".", overwrite=False, is_output=lambda entry: False) == tmp_path
    (tmp_path / "ours").touch()
    with pytest.raises(OutputError, match=r"--overwrite would delete \.; name another folder"):
        check_folder(".", overwrite=True, is_output=lambda entry: True)


def test_a_leftover_that_another_process_has_locked_stays_and_no_file_stays_open(tmp_path):
    target = tmp_path / "out"
    with atomic_write(target) as temporary:
        before = len(os.listdir("/proc/self/fd"))
        with atomic_write(target):
            assert temporary.exists()
        assert len(os.listdir("/proc/self/fd")) == before


def test_the_umask_stays_also_if_the_file_is_gone(tmp_path):
    before = os.umask(0o027)
    try:
        (tmp_path / "made").touch(mode=0o600)
        use_umask(tmp_path / "made", 0o666)
        assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640
        with pytest.raises(FileNotFoundError):
            use_umask(tmp_path / "gone", 0o666)
    finally:
        mask = os.umask(before)
    assert mask == 0o027


def test_a_file_needs_its_folder_unless_that_is_made_later(tmp_path):
    path = tmp_path / "none" / "out"
    with pytest.raises(OutputError, match=r"--out .*/out: its folder does not exist"):
        check_file(path, overwrite=True)
    assert check_file(path, overwrite=False, needs_folder=False) == path.resolve()


def test_the_disk_has_the_bytes_before_the_name_and_then_the_name(tmp_path, monkeypatch):
    """Else a crash leaves an empty file in the place of the only record."""
    done, target, replace = [], tmp_path / "record", type(tmp_path).replace

    def synced(number):
        status = os.fstat(number)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)

    def renamed(path, to):
        done.append("name")
        return replace(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(type(tmp_path), "replace", renamed)
    with atomic_write(target) as temporary:
        temporary.write_bytes(b"12345")
    assert done == [5, "name", "folder"]


def test_a_disk_that_fails_leaves_the_old_file_and_is_named(tmp_path, monkeypatch):
    target = tmp_path / "record"
    target.write_bytes(b"old")

    def fails(number):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=r"Input/output error: .*record"), atomic_write(target) as new:
        new.write_bytes(b"12345")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("names_the_temporary", [False, True])
def test_a_full_disk_is_about_the_target(tmp_path, names_the_temporary):
    """An error of ``write`` has no name, and that of a temporary file says nothing to a user."""
    target = tmp_path / "out"
    with pytest.raises(OSError, match="No space left") as raised, atomic_write(target) as aside:
        raise OSError(errno.ENOSPC, "No space left", *[str(aside)] * names_the_temporary)
    assert raised.value.filename == str(target)
    assert not [*tmp_path.iterdir()]
