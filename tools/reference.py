"""What `make docs` adds to griffe, which reads docstrings and stubs for mkdocstrings.

Roles (as ``:meth:`` before a name) become links, which have to lead somewhere. If a stub overloads
a function, the overload with the docstring is shown; ``__new__`` says what a class takes.
"""

import re

import griffe

ROLE = re.compile(r":(?:class|meth|func|attr|mod|data):`~?([\w.]+)`")


def target(found, name):
    """Return the full name of what a role in the docstring of ``found`` names."""
    if name.startswith("coterie"):
        return name
    inside = found if found.is_class or found.is_module else found.parent
    try:
        return inside.resolve(name)
    except griffe.NameResolutionError:
        return name


class Reference(griffe.Extension):
    """The changes above, as griffe calls them."""

    def on_module_members(self, *, mod, **_):
        """Give a stub's overloaded functions a place among the module's names."""
        for name, overloads in mod.overloads.items():
            if overloads and name not in mod.members:
                mod.set_member(name, next(one for one in reversed(overloads) if one.docstring))

    def on_class_members(self, *, cls, **_):
        """Let a stub's ``__new__`` say what a class takes; griffe looks at ``__init__`` alone."""
        if "__new__" in cls.members and "__init__" not in cls.members:
            cls.members["__init__"] = cls.members.pop("__new__")

    def on_package(self, *, pkg, **_):
        """Turn roles into links."""
        places = [pkg]
        while places:
            found = places.pop()
            if found.is_alias:
                continue
            places += found.members.values()
            if found.docstring:
                found.docstring.value = ROLE.sub(
                    lambda match, found=found: f"[`{match[1]}`][{target(found, match[1])}]",
                    found.docstring.value,
                )
