"""An extension of griffe, which reads docstrings and stubs for `make docs`.

Roles (such as ``:meth:`` before a name) become links; a broken link is an error. If a stub
overloads a function, the overload with the docstring is shown. ``__new__`` gives the parameters of
a class.
"""

import re

import griffe

ROLE = re.compile(r":(?:class|meth|func|attr|mod|data):`~?([\w.]+)`")


def target(documented, name):
    """Return the full name for a role in the docstring of an object."""
    if name.startswith("coterie"):
        return name
    scope = documented
    if not (documented.is_class or documented.is_module):
        scope = documented.parent
    try:
        return scope.resolve(name)
    except griffe.NameResolutionError:
        return name


class Reference(griffe.Extension):
    """The hooks that griffe calls."""

    def on_module_members(self, *, mod, **_):
        """Add a stub's overloaded functions to the module's members."""
        for name, overloads in mod.overloads.items():
            if overloads and name not in mod.members:
                mod.set_member(name, next(f for f in reversed(overloads) if f.docstring))

    def on_class_members(self, *, cls, **_):
        """Use a stub's ``__new__`` for a class's parameters; griffe reads ``__init__`` only."""
        if "__new__" in cls.members and "__init__" not in cls.members:
            cls.members["__init__"] = cls.members.pop("__new__")

    def on_package(self, *, pkg, **_):
        """Show the names that a package computes its ``__all__`` from; turn roles into links."""
        if pkg.path == "coterie":  # its imports for type checkers are these names: tests hold it
            pkg.exports = [
                name
                for name, member in pkg.members.items()
                if member.is_alias and member.target_path.startswith("coterie.")
            ]
        remaining = [pkg]
        while remaining:
            node = remaining.pop()
            if node.is_alias:
                continue
            remaining += node.members.values()
            if node.docstring:
                node.docstring.value = ROLE.sub(
                    lambda match, node=node: f"[`{match[1]}`][{target(node, match[1])}]",
                    node.docstring.value,
                )
