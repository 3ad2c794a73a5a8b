"""Put the docstrings of a stub into a Cython module, for ``transpile.py``.

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

SUMMARY = re.compile(r'^( +|(\w+)\.__doc__ = )"""(.*?)"""$')
DEFINITION = re.compile(r"^( *)(?:cdef class|class|def|cpdef)\b[^(:=]*?(\w+)\s*[(:]")
DOCUMENTED = ast.ClassDef | ast.FunctionDef


def documented(stub, inside=""):
    """Return the docstrings of a stub's classes, functions, methods and properties, by name."""
    docstrings = {}
    for node in stub.body:
        if isinstance(node, DOCUMENTED):
            name = inside + node.name
            if text := ast.get_docstring(node):  # one overload has it
                docstrings[name] = text
            if isinstance(node, ast.ClassDef):
                docstrings |= documented(node, f"{name}.")
    return docstrings


def signatures(stub):
    """Return the constructor's signature of each class of a stub, as its docstring begins."""
    signatures = {}
    for node in stub.body:
        if not isinstance(node, ast.ClassDef):
            continue
        parameters = "()"
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name in ("__new__", "__init__"):
                args = method.args
                del (args.posonlyargs or args.args)[0]  # cls or self
                for arg in ast.walk(args):
                    if isinstance(arg, ast.arg):
                        arg.annotation = None
                parameters = f"({ast.unparse(args)})"
        signatures[node.name] = f"{node.name}{parameters}\n--\n\n"
    return signatures


def definitions(lines):
    """Return the dotted name of each definition, by the index of its first line."""
    enclosing, names = [], {}
    for at, line in enumerate(lines):
        if match := DEFINITION.match(line):
            indent = len(match[1])
            enclosing = [outer for outer in enclosing if outer[0] < indent] + [(indent, match[2])]
            names[at] = ".".join(name for _, name in enclosing)
    return names


def filled(source, stub):
    """Return the module's text with the stub's docstrings in place of their first lines."""
    texts, constructors = documented(ast.parse(stub)), signatures(ast.parse(stub))
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
        lines[at] = before + ascii((constructors[name] if is_type else "") + texts[name])
    wrong += [f"{name}: the first line of its docstring is missing" for name in sorted(missing)]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return "\n".join(lines)
