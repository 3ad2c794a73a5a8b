"""What compiled modules say at run time is what their stubs say: ``tools/stub_docs.py``."""

import ast
import importlib
import importlib.util
import inspect
import pydoc
from pathlib import Path

import pytest

import coterie
import coterie.messages

ROOT = Path(__file__).parents[2]
PYCORE = ROOT / "pycore"
STUBS = sorted((PYCORE / "coterie/_core").rglob("*.pyi"))
SPEC = importlib.util.spec_from_file_location("stub_docs", ROOT / "tools/stub_docs.py")
stub_docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(stub_docs)


def module_of(stub):
    return ".".join(stub.relative_to(PYCORE).with_suffix("").parts)


def said_at_run_time(stub):
    """The docstring of everything that the stub documents, by its name."""
    module = importlib.import_module(module_of(stub))
    docstrings = {}
    for name in stub_docs.documented(ast.parse(stub.read_text(encoding="utf-8"))):
        found = module
        for part in name.split("."):
            found = getattr(found, part)
        docstrings[name] = found.__doc__
    return docstrings


@pytest.mark.parametrize("stub", STUBS, ids=module_of)
def test_a_docstring_at_run_time_is_the_stubs(stub):
    expected = stub_docs.documented(ast.parse(stub.read_text(encoding="utf-8")))
    assert said_at_run_time(stub) == expected


def compiled_names():
    """The public names that are compiled, and their public methods and properties."""
    for home in (coterie, coterie.messages):
        for name in home.__all__:
            found = getattr(home, name)
            if getattr(found, "__module__", "").startswith("coterie._core"):
                yield pytest.param(found, id=name)
                for each, member in vars(found).items() if inspect.isclass(found) else ():
                    is_field = inspect.isgetsetdescriptor(member) and member.__doc__ is None
                    if not each.startswith("_") and (callable(member) or not is_field):
                        yield pytest.param(member, id=f"{name}.{each}")


@pytest.mark.parametrize("found", list(compiled_names()))
def test_every_public_compiled_name_has_a_docstring(found):
    assert found.__doc__


def constructors(stub):
    """What a stub says that each of its classes is made of: names, kinds and defaults."""
    found = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if getattr(method, "name", "") in ("__new__", "__init__"):
                method.name, method.returns = "made", None
                for one in ast.walk(method.args):
                    if isinstance(one, ast.arg):
                        one.annotation = None
                made = {}
                exec(ast.unparse(method), made)
                found[node.name] = [*inspect.signature(made["made"]).parameters.values()][1:]
    return found


@pytest.mark.parametrize("stub", STUBS, ids=module_of)
def test_the_signature_of_a_class_is_what_its_stub_says(stub):
    module = importlib.import_module(module_of(stub))
    for name, expected in constructors(stub).items():
        assert [*inspect.signature(getattr(module, name)).parameters.values()] == expected


PUBLIC_TYPES = [one for one in compiled_names() if inspect.isclass(one.values[0])]


@pytest.mark.parametrize("found", PUBLIC_TYPES)
def test_a_public_compiled_class_has_a_signature(found):
    assert str(inspect.signature(found)).startswith("(")
    assert found.__doc__.split("\n")[0] != "--"


def test_help_shows_what_the_stub_says():
    assert "An advance costs what fires" in inspect.getdoc(coterie.TimerWheel)
    shown = pydoc.render_doc(coterie.TimerWheel, renderer=pydoc.plaintext)
    assert "TimerWheel(now_ms=0)" in shown
    assert "by Kafka's rule since 2.1" in coterie.expired.__doc__


STUB = 'class A:\n    """Of A.\n\n    More.\n    """\n    def f(self):\n        """Of f."""\n'
MODULE = 'cdef class A:\n    """Of A."""\n    def f(self):\n        """Of f."""\n'


def test_a_filled_module_has_the_same_lines_as_its_source():
    filled = stub_docs.filled(MODULE, STUB).splitlines()
    assert filled[::2] == MODULE.splitlines()[::2]
    assert filled[1::2] == [r"    'A()\n--\n\nOf A.\n\nMore.'", "        'Of f.'"]


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (MODULE.replace("Of A", "Of B"), 'line 2: the docstring of A must be """Of A."""'),
        (MODULE.replace("def f", "def g"), "A.f: the first line of its docstring is missing"),
        ("cdef class A:\n    pass\n", "A: the first line of its docstring is missing"),
        (MODULE.replace("class A", "class B"), "A: the first line of its docstring is missing"),
    ],
)
def test_a_first_line_that_is_not_the_stubs_stops_the_build(module, named):
    with pytest.raises(SystemExit, match=named):
        stub_docs.filled(module, STUB)
