"""Put the docstrings of a stub into a Cython module: ``stub_docs.py MODULE.pyx MODULE.pyi OUTPUT``.

The stub holds the full docstrings, because editors and type checkers read it. The module repeats
the first line of each, so that a reader of the source knows what a function is for. The build gives
Cython a copy in which the full text replaces that line; it stays on one line, so line numbers do
not change. The docstring of a `cdef class` begins with the constructor's signature, in the form
from which CPython makes ``__text_signature__``: ``inspect.signature`` and ``help`` show it, and
``__doc__`` omits it.

The exit status is 1 if a documented class or function of the stub has no such line in the module,
or another one.
"""

import ast
import re
import sys
from pathlib import Path

SUMMARY = re.compile(r'^( +|(\w+)\.__doc__ = )"""(.*?)"""$')
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


def filled(source, stub):
    """Return the module's text with the stub's docstrings in place of their first lines."""
    texts, makers = documented(ast.parse(stub)), signatures(ast.parse(stub))
    lines = source.split("\n")
    defined = definitions(lines)
    inside, missing, wrong = None, set(texts), []
    for at, line in enumerate(lines):
        inside = defined.get(at, inside)
        if not (match := SUMMARY.match(line)):
            continue
        before, name = match[1], match[2] or inside
        if name not in missing:  # a helper's own docstring
            continue
        missing.discard(name)
        if match[3] != (first := texts[name].split("\n")[0]):
            wrong.append(
                f'line {at + 1}: the docstring of {name} must be """{first}""", as stubbed'
            )
            continue
        is_type = lines[at - 1].lstrip().startswith("cdef class ")
        lines[at] = before + ascii((makers[name] if is_type else "") + texts[name])
    wrong += [f"{name}: the first line of its docstring is missing" for name in sorted(missing)]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return "\n".join(lines)


def main(module, stub, output):
    """Write the copy that Cython reads."""
    source = Path(module).read_text(encoding="utf-8")
    text = filled(source, Path(stub).read_text(encoding="utf-8"))
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
