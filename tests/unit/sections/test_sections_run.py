"""Sections that raise: what becomes of their claims, and what is shown in their place."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Claim, View
from pytest_crucible.records.arms import ArmTraining
from pytest_crucible.runs.plugins import installed_extensions
from pytest_crucible.sections.run import add_views, compute_sections, load_section, may_decide, sections_of
from tests.report_builders import make_analysis, make_plan

DECIDING = (Claim(subject="c", p_value=0.5, fails=True),)


def section(*, claims=(), document=None, **functions):
    """A section of constants, some of whose functions are replaced."""
    options = {
        "compute": lambda inputs: 1,
        "claims": lambda result: claims,
        "view": lambda result, claims: View(title="t", document=document),
    }
    return SimpleNamespace(**options | functions)


def fail(*_):
    raise IndexError("list index out of range")


def recurse(*_):
    return recurse()


def outcome(built):
    computed = compute_sections({"own": built}, SimpleNamespace(plan=make_plan(), counts=()))
    analysis = replace(make_analysis(make_plan()), sections=computed)
    return add_views({"own": built}, analysis).sections["own"]


@pytest.mark.parametrize("name", installed_extensions().sections)
def test_built_in_sections_without_doubts_declare_that_they_decide_nothing(name):
    section = load_section(installed_extensions().sections[name])
    assert may_decide(section) == hasattr(section, "doubts")


@pytest.mark.parametrize(
    ("built", "hides"),
    [
        (section(compute=fail), True),
        (section(claims=DECIDING, compute=fail), True),
        (section(compute=lambda _: sys.exit(3)), True),
        (section(decides=False, compute=fail), False),
        (section(decides=False, compute=recurse), False),
        (section(view=fail), False),
        (section(claims=DECIDING, view=fail), False),
        (SimpleNamespace(**vars(section()) | {"claims": fail}), True),
        (section(claims=DECIDING * 2), True),
        (section(claims=(replace(DECIDING[0], fails=False),) * 2), False),
        (section(claims=DECIDING, decides=False), True),
        (section(claims=(0.03,)), True),
        (section(document=object()), False),
        (section(view=lambda *_: None), False),
    ],
)
def test_only_a_section_with_hidden_claims_may_fail_the_session(built, hides):
    result = outcome(built)

    assert result.error
    assert result.hides_claims is hides
    assert result.view.document == {"error": result.error}
    texts = [note.text for note in result.view.notes if note.verbosity == 0]
    assert len(texts) == (0 if hides else 1)
    [details] = [note for note in result.view.notes if note.verbosity == 1]
    assert 0 < len(details.details) <= 12


def test_a_section_that_works_shows_what_it_has():
    assert outcome(section(document={"n": 1})).view == View(title="t", document={"n": 1})


IN_EACH = {"run_checks", "large_run", "losses", "cache", "reruns", "stored_baselines", "usage", "worst_samples"}
ONE_ARM = {"arms": make_plan().arms[:1], "contrasts": ()}


@pytest.mark.parametrize(
    ("facts", "further"),
    [
        (ONE_ARM, set()),
        ({}, {"drift", "slice_search"}),
        ({**ONE_ARM, "repeats": 2}, {"stability"}),
        ({**ONE_ARM, "groups": 20}, {"slices"}),
        ({**ONE_ARM, "rounds": 3, "repeats": 3}, {"stability", "variance"}),
        ({**ONE_ARM, "look_alpha": 0.05}, {"stopping"}),
        ({**ONE_ARM, "open_metrics": True}, {"detection", "findings", "judges"}),
        ({**ONE_ARM, "targets": (parse_target("gap(exact by topic) <= 0.1"),)}, {"slices", "fairness", "twins"}),
        (
            {**ONE_ARM, "features": {"stages": [], "overlaps": [], "checks": []}},
            {"stages", "contamination", "data_checks"},
        ),
        ({**ONE_ARM, "features": {"sweep": {}, "robustness": {}}}, {"sweep", "robustness"}),
        ({**ONE_ARM, "features": {"executor": "ray"}}, {"nodes"}),
    ],
)
def test_a_plan_has_the_sections_that_concern_it(facts, further):
    assert sections_of(installed_extensions().sections, make_plan(**facts)).keys() == IN_EACH | further


def test_three_arms_an_ensemble_a_training_and_a_version_have_sections_of_their_own():
    first, second = make_plan().arms
    named = replace(
        first, name="claims@4", members=("a", "b"), trainings=(ArmTraining(name="v2-seed1", seed=1, identity="one"),)
    )
    plan = make_plan(arms=(named, second, replace(second, name="v0")))

    concerned = sections_of(installed_extensions().sections, plan).keys()

    assert concerned == IN_EACH | {"drift", "slice_search", "many_arms", "diversity", "training", "candidates"}
