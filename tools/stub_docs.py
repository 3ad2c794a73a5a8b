"""Put the docstrings of a stub into a Cython module: ``stub_docs.py MODULE.pyx MODULE.pyi OUTPUT``.

The stub is their one source, as editors and type checkers read it anyway. In the module the line
``See ``module.pyi``.`` stands in the place of each; the build gives Cython a copy in which the
stub's text stands there, on that one line, so that every line keeps its number. That of a `cdef
class` begins with what its constructor takes, in the form from which CPython makes
``__text_signature__``: ``inspect.signature`` and ``help`` show it, ``__doc__`` is without it.

The exit status is 1 where a marker names another stub, or something that the stub does not
document; and where the stub documents a class or a function whose definition has no marker.
"""

import ast
import re
import sys
from pathlib import Path

MARKER = re.compile(r'^( +|(\w+)\.__doc__ = )"""See ``(\w+\.pyi)``\."""$')
DEFINITION = re.compile(r"^( *)(?:cdef class|class|def|cpdef)\b[^(:=]*?(\w+)\s*[(:]")
DOCUMENTED = ast.ClassDef | ast.FunctionDef


def documented(stub, inside=""):
    """Return the docstrings of a stub's classes, functions, methods and properties, by name."""
    found = {}
    for node in stub.body:
        if isinstance(node, DOCUMENTED):
            name = inside + node.name
            if text := ast.get_docstring(node):  # of overloads, the one that has it
                found[name] = text
            if isinstance(node, ast.ClassDef):
                found |= documented(node, f"{name}.")
    return found


def signatures(stub):
    """Return the docstring's first lines of each class of a stub, by name: what it is made of."""
    found = {}
    for node in stub.body:
        if not isinstance(node, ast.ClassDef):
            continue
        takes = "()"
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name in ("__new__", "__init__"):
                given = method.args
                del (given.posonlyargs or given.args)[0]  # cls or self
                for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]:
                    one.annotation = None
                takes = f"({ast.unparse(given)})"
        found[node.name] = f"{node.name}{takes}\n--\n\n"
    return found


def definitions(lines):
    """Return the dotted name of what is defined at each line that begins a definition, from 0."""
    around, found = [], {}
    for at, line in enumerate(lines):
        if match := DEFINITION.match(line):
            indent = len(match[1])
            around = [one for one in around if one[0] < indent] + [(indent, match[2])]
            found[at] = ".".join(name for _, name in around)
    return found


def filled(source, stub, stub_name):
    """Return the module's text with the stub's docstrings in the places of its markers."""
    texts, makers = documented(ast.parse(stub)), signatures(ast.parse(stub))
    lines = source.split("\n")
    defined = definitions(lines)
    inside, missing, wrong = None, set(texts), []
    for at, line in enumerate(lines):
        inside = defined.get(at, inside)
        if match := MARKER.match(line):
            before, name = match[1], match[2] or inside
            if match[3] != stub_name or name not in texts:
                wrong.append(f"line {at + 1}: {stub_name} has no docstring of {name}")
                continue
            is_type = lines[at - 1].lstrip().startswith("cdef class ")
            lines[at] = before + ascii((makers[name] if is_type else "") + texts[name])
            missing.discard(name)
    wrong += [f'{name}: """See ``{stub_name}``.""" is missing' for name in sorted(missing)]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return "\n".join(lines)


def main(module, stub, output):
    """Write the copy that Cython reads."""
    source = Path(module).read_text(encoding="utf-8")
    text = filled(source, Path(stub).read_text(encoding="utf-8"), Path(stub).name)
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
