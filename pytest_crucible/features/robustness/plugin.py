"""The hooks of robustness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.records import Plan
    from pytest_crucible.records.datasets import VariantRules
    from pytest_crucible.records.settings import Settings
    from pytest_crucible.session.experiment import Announcement, ExperimentDraft


def pytest_crucible_sections() -> dict[str, Placed]:
    return {
        "robustness": Placed(
            30, "pytest_crucible.features.robustness.section", lambda plan: "robustness" in plan.features
        )
    }


def pytest_crucible_commands() -> dict[str, str]:
    return {
        "guards attacks": Command(
            "pytest_crucible.features.robustness.command:try_attack",
            "List the attacks on prompts, or try one on a text.",
        )
    }


def pytest_crucible_obfuscate(text: str) -> dict[str, str]:
    """Return the obfuscations that apply to a text, each with the whole text written so."""
    from pytest_crucible.features.robustness.command import obfuscate

    return dict(obfuscate(text))


def pytest_crucible_check_item(item: pytest.Item, is_experiment: bool) -> str:
    """Return what is wrong where a test has attacks and is not an experiment."""
    if is_experiment or not any(mark.name == "robustness" for mark in item.own_markers):
        return ""
    return (
        "has attacks but is not an experiment: mark it with @pytest.mark.crucible(dataset=...), or remove the marker "
        "robustness"
    )


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Add the attacks of an experiment, whose samples may have variants of their own."""
    if not _may_attack(draft):
        return
    from pytest_crucible.features.robustness.attack_plans import plan_attacks

    plan_attacks(draft)


def _may_attack(draft: ExperimentDraft) -> bool:
    """Return whether an experiment has attacks, or names some: the attacks are loaded only then."""
    from pytest_crucible.features.robustness.terms import ALIASES

    is_asked = draft.item.get_closest_marker("robustness") is not None or draft.settings.option("attacks") is not None
    return (
        is_asked
        or "canary" in draft.takes
        or "perturb" in draft.takes
        or any("[" in name or name in ALIASES for name in draft.judged)
    )


def pytest_crucible_demands(item: pytest.Function, settings: Settings) -> dict[str, str]:
    """Return the attacks that a test demands of a candidate."""
    if item.get_closest_marker("robustness") is None and settings.option("attacks") is None:
        return {}
    # Loads the attacks, which most suites do not have.
    from pytest_crucible.features.robustness.marks import describe_attacks

    return {"attacks": describe_attacks(item, settings.option("attacks"))}


def pytest_crucible_session_demands(config: pytest.Config) -> dict[str, str]:
    """Return the table of attacks."""
    from pytest_crucible.adapters.config import describe_table

    return {"[attacks]": describe_table(config.rootpath, "attacks")}


def pytest_crucible_announce(announcement: Announcement) -> None:
    """Show how many requests the reply to a variant sends, if that is more than one."""
    for plan in announcement.plans:
        if "robustness" not in plan.features:
            continue
        from pytest_crucible.features.robustness.records import announcement_lines

        announcement.lines[plan.nodeid] += [(30, line) for line in announcement_lines(plan)]


def pytest_crucible_variant_rules(plan: Plan) -> VariantRules | None:
    """Return what is known of the attacked variants of a plan; None for a plan without attacks."""
    from pytest_crucible.features.robustness.drops import variant_rules

    return variant_rules(plan)


def pytest_crucible_pair_variants(plan: Plan, ours: Plan) -> Plan | None:
    """Return the plan with those attacks of ours whose variants both runs have."""
    from pytest_crucible.features.robustness.drops import with_common_attacks

    return with_common_attacks(plan, ours)
