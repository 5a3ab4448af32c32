"""`quick_dataclass.dataclass` makes the classes that the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.quick_dataclass import dataclass

SETTINGS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("frozen", "slots", "kw_only", "eq", "repr", "match_args")}
)
# A field that is no argument of `__init__` has a value of its own.
FIELDS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "init": st.booleans(),
            "repr": st.booleans(),
            "compare": st.booleans(),
            "kw_only": st.booleans(),
            "value": st.sampled_from(["default", "factory"]),
        },
    ).map(lambda spec: spec if "value" in spec else {**spec, "init": True}),
    max_size=4,
)


def make_both(options: dict[str, bool], specs: list[dict[str, Any]]) -> tuple[type[Any], type[Any]]:
    """Return a class by the standard library and the same by ours, or skip one that neither makes."""
    new_class = []
    for decorator in (dataclasses.dataclass, dataclass):
        members: dict[str, Any] = {"__annotations__": {}, "__doc__": "A class.", "__module__": __name__}
        for number, spec in enumerate(specs):
            name = f"f{number}"
            arguments = {key: value for key, value in spec.items() if key != "value"}
            if spec.get("value") == "default":
                arguments["default"] = number
            elif spec.get("value") == "factory":
                arguments["default_factory"] = list
            members["__annotations__"][name] = "int"
            members[name] = field(**arguments)
        try:
            new_class.append(decorator(**options)(type("Made", (), members)))
        except TypeError as error:
            new_class.append(error)
    by_library, ours = new_class
    return by_library, ours


def try_call(function: Any, *args: Any) -> object:
    """Return what a call returns, or the error that it raises."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


@settings(max_examples=500)
@given(options=SETTINGS, specs=FIELDS, values=st.lists(st.integers(0, 2), min_size=8, max_size=8))
def test_classes_behave_as_those_of_the_standard_library(
    options: dict[str, bool], specs: list[dict[str, Any]], values: list[int]
) -> None:
    by_library, ours = make_both(options, specs)
    if isinstance(by_library, Exception):
        assert type(ours) is type(by_library)
        return
    assert str(inspect.signature(ours)) == str(inspect.signature(by_library))
    assert getattr(ours, "__match_args__", None) == getattr(by_library, "__match_args__", None)
    assert repr(ours.__dataclass_params__) == repr(by_library.__dataclass_params__)
    outcomes = [_describe(new_class, values) for new_class in (by_library, ours)]
    assert outcomes[0] == outcomes[1]


def _describe(new_class: type[Any], values: list[int]) -> list[object]:
    """Return what two objects of a class do."""
    names = [each.name for each in dataclasses.fields(new_class) if each.init]
    objects = [new_class(**dict(zip(names, part, strict=False))) for part in (values[:4], values[4:])]
    first, second = objects
    described: list[object] = [first == second, first == copy.deepcopy(first), first == "text"]
    described.append([try_call(getattr, each, f"f{number}") for each in objects for number in range(4)])
    described.append(repr(first) if new_class.__repr__ is not object.__repr__ else "plain")
    described.append(
        new_class.__hash__ is None or (new_class.__hash__ is not object.__hash__ and try_call(hash, first))
    )
    if names:
        described.append(try_call(setattr, copy.copy(first), names[0], 5))
    if not (new_class.__dataclass_params__.frozen and "__slots__" in vars(new_class)):
        # The standard library of Python 3.11 raises a TypeError on `super` there.
        described.append(try_call(setattr, copy.copy(first), "other", 5))
        described.append(try_call(delattr, copy.copy(first), "other"))
    described.append(try_call(lambda: dataclasses.astuple(dataclasses.replace(first))))
    return described


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: float = 0.5
    names: list[str] = field(default_factory=list)
    KIND: ClassVar[str] = "point"


@dataclass(frozen=True)
class Tree:
    children: tuple[Tree, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(child.size for child in self.children))  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, order=True)
class Version:
    number: int


@dataclass(frozen=True)
class Named(Point):
    name: str = ""


def test_frozen_objects_with_slots_are_pickled_and_copied() -> None:
    point = Point(1, names=["a"])
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point


def test_a_factory_makes_a_value_for_each_object() -> None:
    assert Point(1).names is not Point(1).names


def test_code_after_init_is_called() -> None:
    assert Tree((Tree(), Tree())).size == 3  # type: ignore[attr-defined]


def test_an_object_that_holds_itself_is_shown() -> None:
    point = Point(1)
    point.names.append(point)  # type: ignore[arg-type]
    assert repr(point) == "Point(x=1, y=0.5, names=[...])"


def test_orders_and_inherited_fields_are_those_of_the_standard_library() -> None:
    assert Version(1) < Version(2)
    assert Named(1, name="a") != Named(1, name="b")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Named(1).x = 2  # type: ignore[misc]


def test_functions_that_a_class_writes_itself_stay() -> None:
    @dataclass(frozen=True)
    class Whole:
        number: float

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Whole) and int(self.number) == int(other.number)

        def __repr__(self) -> str:
            return f"whole {self.number:.0f}"

    assert Whole(1.2) == Whole(1.4)
    assert repr(Whole(1.2)) == "whole 1"
    assert hash(Whole(1.2)) == hash(Whole(1.2)) != hash(Whole(1.4))


def test_a_class_that_forbids_hashes_has_none() -> None:
    @dataclass(frozen=True)
    class Unhashable:
        number: int
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="unhashable"):
        hash(Unhashable(1))


def test_a_class_of_the_standard_library_inherits_from_ours() -> None:
    @dataclasses.dataclass(frozen=True)
    class Circle(Point):
        radius: float = 1.0

    assert Circle(1, radius=2.0) == Circle(1, radius=2.0) != Circle(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Circle(1).x = 2  # type: ignore[misc]
