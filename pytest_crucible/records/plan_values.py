"""Values of features in a plan: plain data for the core, typed for the feature that owns them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from pytest_crucible.records.plan import Plan
from pytest_crucible.records.serialize import build_value, to_plain

Value = TypeVar("Value")


@dataclass(frozen=True)
class PlanValue(Generic[Value]):
    """A value that a feature keeps in plans, under its name.

    >>> BEGINS = PlanValue[int]("begins", int, 0)
    """

    name: str
    kind: Any
    """Its type, such as `tuple[Stage, ...]`."""
    default: Value
    """The value of a plan that has none."""

    def of(self, plan: Plan) -> Value:
        """Return the value in a plan."""
        plain = plan.features.get(self.name)
        return self.default if plain is None else cast(Value, build_value(self.kind, plain))

    def on(self, plan: Plan, value: Value) -> Plan:
        """Return the plan with this value; the default is not stored."""
        others = {name: plain for name, plain in plan.features.items() if name != self.name}
        added = {} if value == self.default else {self.name: to_plain(value)}
        return replace(plan, features={**others, **added})


BEGINS_LATE = PlanValue[str]("begins_late", str, "")
"""The name of the stage at which an experiment begins, if that is not the first."""
ANSWERED_BY = PlanValue[str]("answered_by", str, "")
"""The helper experiment of the run in which the candidate has answered these same samples."""
