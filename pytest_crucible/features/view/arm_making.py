"""The making of two compared arms, as far as it differs: models, prompts, samples, settings and packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Arm, Plan
from pytest_crucible.report.model import making_facts
from pytest_crucible.runs.compare import StoredArm
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore

MOST_PACKAGES = 20
"""A new environment changes hundreds of packages: the first are named, the others counted."""


@dataclass(frozen=True)
class DifferingFact:
    """A fact with its values for candidate and baseline."""

    name: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class ArmMaking:
    """An arm of a stored run, with all that was stored of how its replies were made."""

    run: Mapping[str, Any]
    """All columns of the run."""
    plans: Sequence[Plan]
    side: StoredArm

    @property
    def arm(self) -> Arm | None:
        """The arm in the first experiment that has it."""
        numbers = ((plan, self.side.number(plan)) for plan in self.plans)
        return next((plan.arms[number] for plan, number in numbers if number is not None and plan.arms), None)

    def facts(self) -> Mapping[str, str]:
        """Return every fact by its name."""
        manifest = self.run["manifest"] or {}
        facts = dict(_arm_facts(self.arm)) if self.arm else {}
        # Without their arms, of which one is compared.
        facts |= making_facts([replace(plan, arms=()) for plan in self.plans], self.run["git"], self.run["environment"])
        facts |= {f"prompts of {plan.nodeid}": _prompts(plan) for plan in self.plans if plan.prompts}
        settings = manifest.get("settings") or {}
        set_values = {name: value for name, value in settings.items() if name not in _OF_SIDES and value is not None}
        return facts | {f"setting {name}": str(value) for name, value in set_values.items()}


_OF_SIDES = frozenset({"adapter", "compare", "store", "json", "report"})
"""Settings that name the arms, which have rows of their own, or files."""


def load_making(store: RunStore, side: StoredArm) -> ArmMaking:
    """Return how the replies of an arm were made."""
    return ArmMaking(store.run(side.run), [plan for _, plan, _ in store.experiments(side.run)], side)


def differing_facts(ours: ArmMaking, theirs: ArmMaking) -> Iterator[DifferingFact]:
    """Yield the facts that differ, those of the arms first."""
    both = ours.facts(), theirs.facts()
    for name in dict.fromkeys((*both[0], *both[1])):
        values = [facts.get(name, "-") for facts in both]
        if values[0] != values[1]:
            yield DifferingFact(name, *values)
    yield from _packages(*((making.run["manifest"] or {}).get("packages") or {} for making in (ours, theirs)))


def _arm_facts(arm: Arm) -> Iterator[tuple[str, str]]:
    yield from (("arm", arm.name), ("adapter", arm.adapter), ("identity", arm.identity))
    for kind, values in (("", arm.settings), ("parameter ", arm.parameters), ("variable ", arm.variables)):
        yield from ((f"{kind}{name}", str(value)) for name, value in values.items())
    if arm.members:
        yield "members", ", ".join(arm.members)
    for member, values in arm.member_settings.items():
        yield from ((f"{member}: {name}", str(value)) for name, value in values.items())
    if arm.training is not None:
        yield "training", quantity(arm.training.training_steps, "step")
    if arm.step is not None:
        yield "step", f"{arm.step:,}"
    if arm.trained_on:
        yield "trained on", ", ".join(f"{name} ({sha256[:12]})" for sha256, name in arm.trained_on.items())


def _prompts(plan: Plan) -> str:
    return ", ".join(f"{form.name} ({form.sha256[:12]})" for form in plan.prompts)


def _packages(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[DifferingFact]:
    changed = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    for name in changed[:MOST_PACKAGES]:
        yield DifferingFact(f"package {name}", ours.get(name, "-"), theirs.get(name, "-"))
    if len(changed) > MOST_PACKAGES:
        more = quantity(len(changed) - MOST_PACKAGES, "package")
        yield DifferingFact("further packages", f"{more} more", "")
