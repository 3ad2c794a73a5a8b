"""Invalid arguments, and calls of every name of a module with them.

The names are found by inspection, so new functions, methods and properties are covered. A new class
needs an entry in ``MAKERS`` if its constructor has parameters. A new parameter needs an entry in
``GOOD`` if no value there fits. The tests report missing entries.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import copy
import importlib
import inspect
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie

NOBODYS_FAULT = (SystemError, MemoryError, RecursionError)  # no argument may cause these
SPECIAL = ("__len__", "__iter__", "__next__", "__getitem__", "__contains__", "__eq__", "__hash__",
           "__repr__", "__setitem__", "__delitem__", "__reduce_ex__")  # fmt: skip
# numpy 1 warns where numpy 2 raises; a warning is an error in tests, and none of ours.
OF_NUMPY_1 = [
    pytest.mark.filterwarnings(f"ignore:{message}:DeprecationWarning")
    for message in (
        "The truth value of an empty array is ambiguous",
        "In future, it will be an error for 'np.bool_' scalars",
        "Conversion of an array with ndim > 0 to a scalar",
    )
]
AT_ONCE = 200  # values of a generator


class Theirs(Exception):
    """Raised by an object of the caller; it must reach the caller unchanged."""


def _raises(self: Any, *_: Any, **__: Any) -> Any:
    raise Theirs


_DUNDERS = (
    *("__eq__", "__lt__", "__hash__", "__len__", "__iter__", "__index__", "__bool__", "__repr__"),
    *("__str__", "__getitem__", "__contains__", "__int__", "__float__", "__call__", "__array__"),
    *("__add__", "__sub__"),
)
Raises = type("Raises", (), dict.fromkeys(_DUNDERS, _raises))
Text = type("Text", (str,), dict.fromkeys(["__eq__", "__hash__", "__str__", "encode"], _raises))
Number = type(
    "Number", (int,), dict.fromkeys(["__eq__", "__hash__", "__index__", "__lt__"], _raises)
)
Blob = type("Blob", (bytes,), dict.fromkeys(["__eq__", "__hash__", "__len__", "__iter__"], _raises))


def endless() -> list[Any]:
    """Return a list that contains itself."""
    items: list[Any] = [5]
    items.append(items)
    return items


PLAIN: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: 5, lambda: -1, lambda: 2**31, lambda: 2**63 - 1, lambda: -(2**63),
    lambda: 2**63, lambda: 2**70, lambda: 10**5000, lambda: True, lambda: 1.5,
    lambda: float("nan"), lambda: "x", lambda: "", lambda: "\ud800", lambda: "x" * 100_000,
    lambda: b"x", lambda: b"", lambda: bytearray(b"x"), lambda: memoryview(b"abcdef")[::2],
    lambda: [], lambda: [5], lambda: ["a"], lambda: [("a",)], lambda: [("a", 5)],
    lambda: [(5, b"")], lambda: [("a", b"", 5)], lambda: ["ab", "cd"], lambda: [None],
    lambda: [[5]], lambda: [("t", "0")], lambda: [(0, 0, "k", 5)], lambda: (), lambda: (5,),
    lambda: {}, lambda: {1: 5}, lambda: {("t", 0): None}, lambda: {"raw": 5}, lambda: {"op": 5},
    lambda: {"version": 1}, lambda: {"version": [1]}, lambda: {"version": 3, "data": {"a": 5}},
    lambda: {"config": 5, "format": "coterie-trace", "version": 1}, set, object, lambda: int,
    lambda: len, endless, Raises, lambda: [Raises()], lambda: {"a": Raises()}, lambda: Text("g"),
    lambda: [Text("a")], lambda: Number(5), lambda: Blob(b"x"), lambda: iter([5]),
    lambda: (5 for _ in "ab"), lambda: types.MappingProxyType({1: 5}),
)  # fmt: skip
ARRAYS: tuple[Callable[[], Any], ...] = (
    lambda: np.array(5), lambda: np.zeros(3), lambda: np.arange(6)[::2],
    lambda: np.zeros((2, 2), dtype=np.uint8), lambda: np.arange(3, dtype=np.int8),
    lambda: np.arange(6, dtype=np.uint8)[::2], lambda: np.array([2**63], dtype=np.uint64),
    lambda: np.array([object()]), lambda: np.array(["a"]), lambda: np.array([True]),
    lambda: np.zeros(0), lambda: np.array([0], dtype="datetime64[ms]"), lambda: np.float32(1.5),
    lambda: np.bool_(True), lambda: np.int64(-1), lambda: np.arange(3).astype(">i8"),
    lambda: np.zeros(2, dtype=[("a", "u1")]),
)  # fmt: skip


@cache
def stub(module: str) -> dict[str, list[inspect.Parameter]]:
    """Return the parameters of each class's maker, as the stub of a compiled module has them."""
    path = Path(coterie.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".pyi")
    if not path.exists():
        return {}
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.FunctionDef) and item.name in ("__new__", "__init__"):
                found[node.name] = list(stubbed(item.args))
    return found


def stubbed(args: ast.arguments) -> Iterator[inspect.Parameter]:
    """Yield a maker's parameters without the first, which is the class or the object."""
    needed = len(args.args) - len(args.defaults)
    for number, arg in enumerate(args.args[1:], 1):
        default = inspect.Parameter.empty if number < needed else None
        yield inspect.Parameter(arg.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
    for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        default = inspect.Parameter.empty if kw_default is None else None
        yield inspect.Parameter(arg.arg, inspect.Parameter.KEYWORD_ONLY, default=default)


def parameters(called: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return a callable's parameters; None if they are unknown."""
    try:
        found = list(inspect.signature(called).parameters.values())
    except ValueError:
        return stub(called.__module__).get(called.__name__)
    return [p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


class Walk:
    """Calls with invalid arguments, and their results.

    Parameters
    ----------
    good
        Valid values, or functions that make them, perhaps from the object of the method; by the
        parameter's name, ``function.parameter`` or ``Class.method.parameter``.
    values
        Invalid values.
    """

    def __init__(self, good: dict[str, Any], values: tuple[Callable[[], Any], ...]) -> None:
        self.good, self.values = good, values
        self.held: Any = None  # the object whose method is called
        self.leaks: dict[str, str] = {}
        self.never: set[str] = set()  # names whose calls all failed

    def fitting(self, name: str, parameter: inspect.Parameter) -> Any:
        """Return a value that fits."""
        whose = f"{type(self.held).__name__}.{name}.{parameter.name}"
        for key in (whose, f"{name}.{parameter.name}", parameter.name):
            if key in self.good:
                made = self.good[key]
                if not isinstance(made, types.FunctionType):
                    return copy.deepcopy(made) if type(made) in (dict, list) else made
                return made(self.held) if made.__code__.co_argcount else made()
        if parameter.default is inspect.Parameter.empty:
            raise AssertionError(f"no value in GOOD for the parameter {parameter.name} of {name}")
        return parameter.default

    def run(self, name: str, allowed: tuple[type, ...], called: Callable[[], Any]) -> Any:
        """Call, consume lazy results, and record exceptions that are not allowed."""
        try:
            found = called()
            if inspect.iscoroutine(found):
                found = asyncio.run(found)
            if isinstance(found, Iterator) and not isinstance(found, type):
                list(itertools.islice(found, AT_ONCE))
        except (Theirs, *allowed) as error:
            if isinstance(error, NOBODYS_FAULT):
                raise
            return None
        except Exception as error:
            self.leaks.setdefault(f"{name}: {type(error).__name__}", f"{error!s:.200}")
            return None
        self.never.discard(name)
        return found

    def calls_of(self, name: str, takes: list[inspect.Parameter]) -> Iterator[dict[str, Any]]:
        """Yield arguments: all valid, then one invalid in turn, then all invalid."""

        def arguments(unfit: dict[str, Any]) -> dict[str, Any]:
            needed = [p for p in takes if p.default is p.empty and p.name not in unfit]
            return {p.name: self.fitting(name, p) for p in needed} | unfit

        yield arguments({})
        for parameter in takes:
            for value in self.values:
                yield arguments({parameter.name: value()})
        if len(takes) > 1:
            for value in self.values:
                yield arguments({p.name: value() for p in takes})

    def call(self, name: str, called: Callable[..., Any], allowed: tuple[type, ...]) -> list[Any]:
        """Call a function or method with all these arguments; return the results."""
        takes = parameters(called)
        if takes is None:  # a class without a signature
            tried = [[], *([v()] for v in self.values), *([v(), v()] for v in self.values)]
            may = (*allowed, TypeError, ValueError, OverflowError)
            return [self.run(name, may, lambda a=args: called(*a)) for args in tried]
        self.never.add(name)
        ways = self.calls_of(name, takes)
        return [self.run(name, allowed, lambda n=named: called(**n)) for named in ways]

    def special(self, name: str, held: Any, allowed: tuple[type, ...]) -> None:
        """Use an object's operators, items and attributes."""
        kind = type(held)
        for value in self.values:
            for special in SPECIAL:
                if getattr(kind, special, None) is None:
                    continue
                args = {"__getitem__": (value(),), "__contains__": (value(),), "__eq__": (value(),),
                        "__setitem__": (value(), 5), "__delitem__": (value(),),
                        "__reduce_ex__": (4,)}.get(special, ())  # fmt: skip
                may = {"__getitem__": (LookupError,), "__next__": (StopIteration,),
                       "__hash__": (TypeError,), "__reduce_ex__": (TypeError,)}  # fmt: skip
                self.run(f"{name}.{special}", (*allowed, *may.get(special, ())),
                         lambda s=special, a=args: getattr(kind, s)(held, *a))  # fmt: skip
            for attribute in properties(kind):
                may_set = (AttributeError, TypeError, ValueError, OverflowError)
                self.run(f"{name}.{attribute} = ", (*allowed, *may_set),
                         lambda a=attribute, v=value: setattr(held, a, v()))  # fmt: skip


def check(walk: Walk, unready: set[str] | frozenset[str] = frozenset()) -> None:
    """Check that all exceptions were allowed, and that some call of each name succeeded."""
    found = [f"{where}: {what}" for where, what in sorted(walk.leaks.items())]
    assert not found, "\n".join(found)
    never = walk.never - unready
    assert not never, f"no call succeeded: {sorted(never)}"


def properties(kind: type) -> list[str]:
    """Return the attributes that a class computes, without its slots."""
    found = {n: inspect.getattr_static(kind, n) for n in dir(kind) if not n.startswith("_")}
    return [n for n, value in found.items() if inspect.isdatadescriptor(value)
            and not isinstance(value, types.MemberDescriptorType)]  # fmt: skip


def methods(kind: type) -> list[str]:
    """Return the names of a class's own methods."""
    return [n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n))
            and not isinstance(inspect.getattr_static(kind, n), type)]  # fmt: skip


def walk_object(walk: Walk, make: Callable[[], Any], allowed: tuple[type, ...]) -> None:
    """Call every method, each on a fresh object, and use its operators."""
    for method in methods(type(make())):
        walk.held = make()
        walk.call(method, getattr(walk.held, method), allowed)
    walk.special(type(make()).__name__, make(), allowed)


def walk_made_again(walk: Walk, make: Callable[[], Any], allowed: tuple[type, ...]) -> None:
    """Call an object's ``__init__`` again in every way, and use the object after each call."""
    held = walk.held = make()
    kind = type(held)
    takes = parameters(kind)
    ways = [] if takes is None else [((), named) for named in walk.calls_of(kind.__name__, takes)]
    ways += [((), {}), *(((value(),) * n, {}) for value in walk.values for n in (1, 2))]
    may = (*allowed, TypeError, ValueError, OverflowError, AttributeError)
    for args, named in ways:
        walk.run(f"{kind.__name__}.__init__", may, lambda a=args, n=named: held.__init__(*a, **n))
        for name in properties(kind):
            walk.run(name, may, lambda n=name: getattr(held, n))
        walk.run("repr", may, lambda: repr(held))
    for method in methods(kind):
        needed = [p for p in parameters(getattr(held, method)) or () if p.default is p.empty]
        args = {p.name: walk.fitting(method, p) for p in needed}
        walk.run(method, (*may, LookupError), lambda m=method, a=args: getattr(held, m)(**a))


def walk_spoiled(walk: Walk, make: Callable[[], Any], allowed: tuple[type, ...]) -> None:
    """Write into every value that an object returns, then read all again."""
    held = walk.held = make()
    for _ in range(2):
        public = [name for name in getattr(held, "__dict__", ()) if not name.startswith("_")]
        for name in [*properties(type(held)), *public]:
            spoil(walk.run(name, allowed, lambda n=name: getattr(held, n)))
        for method in methods(type(held)):
            takes = [p for p in parameters(getattr(held, method)) or () if p.default is p.empty]
            args = {p.name: walk.fitting(method, p) for p in takes}
            spoil(walk.run(method, allowed, lambda m=method, a=args: getattr(held, m)(**a)))


def spoil(value: Any, depth: int = 2) -> None:
    """Write invalid values into a returned value."""
    if isinstance(value, dict):
        for inner in list(value.values()) if depth else ():
            spoil(inner, depth - 1)
        for key in list(value):
            value[key] = 5
        value |= {5: 5, "x": 5, ("t", 0): 5}
    elif isinstance(value, list):
        for inner in list(value) if depth else ():
            spoil(inner, depth - 1)
        value[:] = [5, None, *value]
    elif isinstance(value, deque):
        for write in DEQUE_WRITES:
            with contextlib.suppress(coterie.CoterieError, LookupError, TypeError):
                write(value)
    elif type(value).__module__.startswith("coterie._core.") and not isinstance(value, tuple):
        for args in ((), (5,), ("x", 5), (None,) * 8):
            with contextlib.suppress(coterie.CoterieError, TypeError, ValueError, OverflowError):
                value.__init__(*args)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.flags.writeable:
        value[...] = np.array(-1).astype(value.dtype)
    elif isinstance(value, types.MappingProxyType):
        with contextlib.suppress(TypeError):
            value == Writer()  # noqa: B015 - it is handed the very dict
        for inner in list(value.values()) if depth else ():
            spoil(inner, depth - 1)


DEQUE_WRITES: tuple[Callable[[Any], Any], ...] = (
    lambda held: held.append(5), lambda held: held.appendleft(None), lambda held: held.rotate(1),
    lambda held: held.extend([5, "x"]), lambda held: held.insert(1, 5), lambda held: held.reverse(),
    lambda held: held.__setitem__(0, 5), lambda held: held.__delitem__(0),
    lambda held: held.__iadd__([5]), lambda held: held.__imul__(2), lambda held: held.__init__([5]),
    lambda held: deque.append(held, 5), lambda held: deque.__init__(held, [5, None]),
    lambda held: held.pop(),
)  # fmt: skip


class Writer:
    """Writes into the object it is compared with: a mapping proxy passes its dict."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        spoil(other, 0)
        return True


def modules_of(package: types.ModuleType) -> Iterator[types.ModuleType]:
    """Yield every module of a package, compiled ones too."""
    import pkgutil

    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(found.name)
