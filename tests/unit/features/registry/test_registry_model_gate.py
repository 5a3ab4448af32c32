"""The gate of a model: what is weaker than it, and how its suite is collected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_crucible.features.registry.model_gate import gate_changes, rules_of, weaker_demands, weaker_rules
from pytest_crucible.features.registry.promote import clean_environment, collect_suite
from pytest_crucible.features.registry.records import ModelGate
from pytest_crucible.features.registry.rules import RegistrySettings
from pytest_crucible.features.registry.suite_record import SuiteRecord
from pytest_crucible.records.errors import SpecError

NAMES = st.sampled_from(["dataset", "target a >= 0.5", "comparison of a", "metric a", "test function", "timeout"])
DEMANDS = st.dictionaries(NAMES, st.sampled_from(["point", "0.05", "0.99", "x"]), min_size=1)
RULES = rules_of(RegistrySettings())
SUITES = st.builds(
    SuiteRecord,
    settings=st.dictionaries(st.sampled_from(["memory", "reasoning"]), st.sampled_from(["off", "pool"])),
    experiments=st.dictionaries(st.sampled_from(["t.py::a", "t.py::b", "t.py::c"]), DEMANDS, min_size=1),
)


def gate_of(suite: SuiteRecord) -> ModelGate:
    return ModelGate(suite=(), settings=suite.settings, experiments=suite.experiments, rules=RULES)


@given(SUITES)
def test_a_suite_meets_its_own_gate(suite):
    assert weaker_demands(gate_of(suite), suite) == []
    assert gate_changes(gate_of(suite), gate_of(suite)) == []


@given(SUITES, st.data())
def test_a_suite_without_one_of_its_demands_does_not(suite, data):
    nodeid = data.draw(st.sampled_from(sorted(suite.experiments)))
    demand = data.draw(st.sampled_from(sorted(suite.experiments[nodeid])))
    rest = {name: value for name, value in suite.experiments[nodeid].items() if name != demand}
    lesser = replace(suite, experiments={**suite.experiments, nodeid: rest})

    assert [(change.place, change.demand) for change in weaker_demands(gate_of(suite), lesser)] == [(nodeid, demand)]


@given(SUITES, SUITES)
def test_two_gates_without_changes_are_equal(item, other):
    assume(item != other)

    assert gate_changes(gate_of(item), gate_of(other))


@given(SUITES, DEMANDS)
def test_a_further_experiment_takes_nothing_away(suite, demands):
    more = replace(suite, experiments={**suite.experiments, "t.py::more": demands})

    assert weaker_demands(gate_of(suite), more) == []


STRICTER = {"strict": ("no", "yes"), "early stop": ("yes", "no"), "alpha": ("0.05", "0.4")}


def test_settings_that_are_stricter_pass_and_weaker_ones_do_not():
    suite = SuiteRecord(settings={name: old for name, (old, _) in STRICTER.items()}, experiments={})
    stricter = replace(suite, settings={name: new for name, (_, new) in STRICTER.items()})

    assert weaker_demands(gate_of(suite), stricter) == []
    # A run is decided again at the smaller alpha, whichever it is.
    assert {change.demand for change in weaker_demands(gate_of(stricter), suite)} == {"strict", "early stop"}


def test_repeats_and_targets_by_their_bound_may_only_grow():
    few = SuiteRecord(settings={}, experiments={"t": {"repeats": "2", "target a >= 0.5": "point"}})
    many = SuiteRecord(settings={}, experiments={"t": {"repeats": "10", "target a >= 0.5": "bound"}})

    assert weaker_demands(gate_of(few), many) == []
    assert len(weaker_demands(gate_of(many), few)) == 2


def test_what_a_gate_lacks_makes_an_experiment_no_weaker_only_where_it_is_a_verdict():
    plain = SuiteRecord(settings={}, experiments={"t": {"dataset": "d"}})
    more = SuiteRecord(settings={}, experiments={"t": {"dataset": "d", "target a >= 1": "point", "attacks": "none"}})

    assert [change.demand for change in weaker_demands(gate_of(plain), more)] == ["attacks"]


def test_an_era_is_stricter_than_none_and_a_smaller_share_than_a_larger_one():
    none, wide, narrow = (rules_of(RegistrySettings(era_alpha=share)) for share in (None, 0.1, 0.05))
    gate = replace(gate_of(SuiteRecord(settings={})), rules=wide)

    assert weaker_rules(replace(gate, rules=none), wide) == []
    assert weaker_rules(gate, narrow) == []
    assert [change.new for change in weaker_rules(gate, none)] == ["no"]
    assert [change.new for change in weaker_rules(replace(gate, rules=narrow), wide)] == ["0.1"]


def test_only_variables_that_programs_need_and_those_that_are_named_are_passed_on():
    passed = {"PATH": "p", "LC_ALL": "C", "HF_HOME": "h", "MORE": "2"}
    environment = {**passed, "FAST": "1", "PYTEST_ADDOPTS": "-k x", "CRUCIBLE_STORE": "s"}

    assert clean_environment(environment, ["MORE", "ABSENT"]) == passed


@pytest.mark.slow
def test_a_suite_that_is_not_there_cannot_be_collected(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    with pytest.raises(SpecError, match=r"the suite \(nowhere.py\) cannot be collected for its gate: .*nowhere.py"):
        collect_suite(["nowhere.py"], [], tmp_path)
