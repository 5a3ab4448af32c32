"""Records with a quick `__init__` are the frozen dataclasses that they were."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_crucible.records import Reply, Request
from pytest_crucible.records.quick_init import with_quick_init


@dataclasses.dataclass(frozen=True, slots=True)
class Usual:
    """A record as Python makes it, with fields by place and by name, without and with defaults."""

    a: int
    b: str = "b"
    c: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    d: float = dataclasses.field(default=0.5, kw_only=True)
    e: float = dataclasses.field(kw_only=True)


@with_quick_init
@dataclasses.dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"
    c: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    d: float = dataclasses.field(default=0.5, kw_only=True)
    e: float = dataclasses.field(kw_only=True)


@pytest.mark.parametrize(
    ("places", "names"),
    [((1,), {"e": 2.0}), ((1, "x"), {"e": 2.0, "d": 1.0}), ((1, "x", {"k": 1}), {"e": 2.0}), ((), {"a": 1, "e": 2.0})],
)
def test_the_fields_are_those_of_a_usual_dataclass(places, names):
    assert dataclasses.asdict(Quick(*places, **names)) == dataclasses.asdict(Usual(*places, **names))


@pytest.mark.parametrize(
    ("places", "names"), [((), {"e": 1.0}), ((1,), {}), ((1, "b", {}, 0.5), {"e": 1.0}), ((1,), {"e": 1.0, "x": 1})]
)
def test_wrong_arguments_are_refused(places, names):
    for record in (Usual, Quick):
        with pytest.raises(TypeError):
            record(*places, **names)


def test_a_made_default_belongs_to_one_record():
    assert Reply(text="a").members is not Reply(text="b").members


def test_records_stay_frozen_and_can_be_copied_and_replaced():
    reply = Reply(text="a", input_tokens=3)

    with pytest.raises(dataclasses.FrozenInstanceError):
        reply.text = "b"  # type: ignore[misc]
    assert copy.copy(reply) == pickle.loads(pickle.dumps(reply)) == reply
    assert dataclasses.replace(reply, text="b") == Reply(text="b", input_tokens=3)


def test_signatures_show_fields_and_defaults():
    assert str(inspect.signature(Quick)) == str(inspect.signature(Usual))
    assert inspect.signature(Request).parameters["call"].default == 1
