"""The heap of a process that lives long: the options of glibc."""

import pytest

from coterie.base import malloc_trim


@pytest.fixture
def libc(monkeypatch):
    """A C library; what it has, and its calls."""

    class Library(dict):
        def __init__(self):
            super().__init__()
            self.calls = []

        def add(self, name):
            self[name] = lambda *args: self.calls.append((name, *args))

    library = Library()
    monkeypatch.setattr(malloc_trim, "_of_libc", library.get)
    return library


def test_there_is_one_heap_that_keeps_blocks_of_up_to_128_kib(libc):
    """mallopt(3): -1 is M_TRIM_THRESHOLD, -3 M_MMAP_THRESHOLD, -8 M_ARENA_MAX."""
    libc.add("mallopt")
    malloc_trim.keep_little()
    assert sorted(libc.calls) == [
        ("mallopt", -8, 1), ("mallopt", -3, 131_072), ("mallopt", -1, 131_072),
    ]  # fmt: skip


def test_freed_memory_goes_back_whole(libc):
    libc.add("malloc_trim")
    assert malloc_trim.can_trim()
    malloc_trim.trim()
    assert libc.calls == [("malloc_trim", 0)]  # 0 bytes stay


def test_with_another_c_library_nothing_happens(libc):
    malloc_trim.keep_little()
    malloc_trim.trim()
    assert not malloc_trim.can_trim()
    assert libc.calls == []
