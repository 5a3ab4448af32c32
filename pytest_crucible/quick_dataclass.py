"""`dataclass` as in the standard library, which makes a class in a quarter of the time.

The standard library compiles up to seven functions for each class, 0.7 ms; a session of one sample imports about 260 of our
classes, and spent a fifth of its time on that. Here only `__init__` is compiled. The other functions read the names of the
fields, and do what those of the standard library do.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any


class _MadeOnCall:
    """The default, in a signature, of an argument that a factory makes at each call."""

    def __repr__(self) -> str:
        return "<factory>"


def _dataclass(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    order: bool = False,
    **others: bool,
) -> Any:
    """Return a class as a dataclass, or a decorator that does so. Settings and results are those of `dataclasses.dataclass`."""

    def make(plain: type[Any]) -> type[Any]:
        # Orders and inherited fields are rare.
        if order or any(map(is_dataclass, plain.__mro__)):
            return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq, repr=repr, order=order, **others)(plain)
        written = dict(vars(plain))
        new_class: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, **others)(plain)
        functions: dict[str, Any] = {"__init__": _compile_init(new_class, frozen, slots)}
        functions |= {"__repr__": _show} if repr else {}
        functions |= _compare_fields(new_class, frozen) if eq else {}
        functions |= _refuse_changes(new_class, slots) if frozen else {}
        _add_functions(new_class, functions, written)
        for name, value in {"init": True, "repr": repr, "eq": eq, "frozen": frozen}.items():
            setattr(new_class.__dataclass_params__, name, value)
        return new_class

    return make if cls is None else make(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


def _add_functions(new_class: type[Any], functions: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Give a class the functions that are not written in it."""
    for name, function in functions.items():
        # Python itself writes this hash into a class with `__eq__`.
        is_mark = "__eq__" in written and written.get(name) is None
        if name not in written or is_mark:
            setattr(new_class, name, function)


def _compile_init(new_class: type[Any], frozen: bool, slots: bool) -> Callable[..., None]:
    """Compile `__init__`: an argument for each field, in order, those by name alone last."""
    arguments = sorted((field for field in fields(new_class) if field.init), key=lambda field: bool(field.kw_only))
    positional = [field for field in arguments if not field.kw_only]
    _check_order(positional)
    words = [_argument(field) for field in arguments]
    words[len(positional) : len(positional)] = ["*"] if len(positional) < len(arguments) else []
    body = list(_assignments(fields(new_class), slots, "_set_{0}(self, {1})" if frozen else "self.{0} = {1}"))
    body += ["self.__post_init__()"] if hasattr(new_class, "__post_init__") else []
    names: dict[str, Any] = {"__name__": new_class.__module__, "_made_on_call": _MadeOnCall()}
    for field in fields(new_class):
        names |= {f"_default_{field.name}": field.default, f"_factory_{field.name}": field.default_factory}
        names |= {f"_set_{field.name}": _setter(new_class, field.name, slots)} if frozen else {}
    exec(f"def __init__({', '.join(['self', *words])}):\n " + "\n ".join(body or ["pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{new_class.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in arguments} | {"return": None}
    return init


def _check_order(positional: Iterable[Field[Any]]) -> None:
    for before, field in pairwise(positional):
        if "=" in _argument(before) and "=" not in _argument(field):
            raise TypeError(f"non-default argument {field.name!r} follows default argument {before.name!r}")


def _argument(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}=_default_{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=_made_on_call"


def _assignments(every: Iterable[Field[Any]], slots: bool, statement: str) -> Iterator[str]:
    """Yield the statements that set the fields. A field that nothing gives a value is left to `__post_init__`."""
    for field in every:
        if field.default_factory is not MISSING:
            value = f"_factory_{field.name}()"
            if field.init:
                value = f"{value} if {field.name} is _made_on_call else {field.name}"
            yield statement.format(field.name, value)
        elif field.init:
            yield statement.format(field.name, field.name)
        elif slots and field.default is not MISSING:
            # A class with slots has no attribute of that name that holds the default.
            yield statement.format(field.name, f"_default_{field.name}")


def _setter(new_class: type[Any], name: str, slots: bool) -> Callable[[object, object], None]:
    """Return a function that sets a field of a frozen object. A slot's own takes .6 of the time of `object.__setattr__`."""
    if slots:
        setter: Callable[[object, object], None] = vars(new_class)[name].__set__
        return setter
    return lambda self, value: object.__setattr__(self, name, value)


@reprlib.recursive_repr()
def _show(self: Any) -> str:
    parts = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({parts})"


def _compare_fields(new_class: type[Any], frozen: bool) -> dict[str, Any]:
    """Return the functions of a class that is equal by its fields; a frozen one has a hash of them, another one has none."""
    names = [field.name for field in fields(new_class) if field.compare]
    values: Callable[[Any], tuple[Any, ...]]
    values = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)

    def equals(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equals, "__hash__": (lambda self: hash(values(self))) if frozen else None}


def _refuse_changes(new_class: type[Any], slots: bool) -> dict[str, Any]:
    """Return the functions of a frozen class. A class that inherits from it may set names of its own."""
    names = frozenset(field.name for field in fields(new_class))

    def refuse_value(self: Any, name: str, value: object) -> None:
        if type(self) is new_class or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(new_class, self).__setattr__(name, value)

    def refuse_deletion(self: Any, name: str) -> None:
        if type(self) is new_class or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(new_class, self).__delattr__(name)

    # Copies and pickles of slots would else assign to them.
    copying = {"__getstate__": _state, "__setstate__": _restore} if slots else {}
    return {"__setattr__": refuse_value, "__delattr__": refuse_deletion, **copying}


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
