"""The examples in public docstrings: they run, from the repository's folder, and print that.

An example stands with every public function, and with every class that a caller makes. What a call
returns or a function of the caller gets is in the example of that call; errors, enums and plain
values have none. In an example the names of its module are known, and those of the public one.
"""

import doctest
import enum
import importlib
import inspect
import re
import sys

import pytest

from support.sources import ROOT

FACES = ["", ".aio", ".designs", ".histories", ".messages", ".server", ".testing", ".wire"]
COME_FROM_CALLS = {
    "Records",  # process(records)
    "Request",  # decode_request
    "Response",  # decode_response
    "Timeline",  # run
    "ConfluentConsumer",  # a real client: docs/testing-histories.md
}
PLAIN = (BaseException, enum.Enum, tuple)


def examples_of(face):
    """The public names of a module, each with its examples and the names that these know."""
    module = importlib.import_module(f"coterie{face}")
    known = {name: getattr(module, name) for name in module.__all__}
    for name, value in known.items():
        home = vars(sys.modules[getattr(value, "__module__", None) or module.__name__])
        text = value.__doc__ if callable(value) else ""
        names = {**home, **known, "__name__": "example"}
        yield doctest.DocTestParser().get_doctest(text or "", names, name, None, None), value


TESTED = [(face, *each) for face in FACES for each in examples_of(face)]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(test, id=f"coterie{face}.{test.name}")
        for face, test, _ in TESTED
        if test.examples
    ],
)
def test_an_example_prints_what_it_shows(example, monkeypatch):
    monkeypatch.chdir(ROOT)
    wrong = []
    doctest.DocTestRunner(verbose=False).run(example, out=wrong.append)
    if lacking := re.search(r"\w+ is not installed; pip install 'coterie\[\w+\]'", "".join(wrong)):
        pytest.skip(lacking[0])
    assert not wrong, "".join(wrong)


def has_example(value):
    """Whether the rule says that a name has an example."""
    if inspect.isclass(value):
        return not issubclass(value, PLAIN) and not hasattr(value, "__dataclass_fields__")
    return callable(value)


def test_every_public_name_is_in_an_example():
    used = {
        name
        for _, test, _ in TESTED
        for example in test.examples
        for name in names_used(example.source)
    }
    missing = [
        f"coterie{face}.{test.name}"
        for face, test, value in TESTED
        if has_example(value) and not test.examples and test.name not in used | COME_FROM_CALLS
    ]
    assert not missing


def names_used(source):
    """The names that a piece of code uses, also in its functions."""
    remaining, names = [compile(source, "example", "exec")], set()
    while remaining:
        code = remaining.pop()
        names.update(code.co_names)
        remaining += [one for one in code.co_consts if inspect.iscode(one)]
    return names
