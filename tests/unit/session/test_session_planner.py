"""Markers become plans: the arms, samples, metrics and claims of an experiment."""

from __future__ import annotations

import dataclasses

import pytest
from adapter_contexts import default_settings
from experiment_builders import ALONE, collect_items, plan_item, register_tables, scripted_arm

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics.definition import as_metric
from pytest_crucible.records import Arm, MetricFacts
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment_data import SessionDatasets, declared_metrics
from pytest_crucible.session.marks import experiment_mark
from pytest_crucible.session.planner import ExperimentPlanner

SOURCE = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": k, "input": k} for k in "abcd"], metrics=["exact_match"])
    def test_it(sample, sampler):
        return sampler.generate(sample.input)
"""
COMPARED = SOURCE.replace("def test_it", '@pytest.mark.ab_compare("exact_match")\n    def test_it')


@pytest.fixture
def arms() -> list[OpenedArm]:
    return [scripted_arm(lambda request: "a", "v2"), scripted_arm(lambda request: "b", "v1", "baseline")]


def opened_config(pytester: pytest.Pytester) -> pytest.Config:
    """Return a configuration with the tables that a session has once it is opened."""
    config = pytester.parseconfigure(*ALONE)
    register_tables(config)
    return config


def test_baselines_are_queried_only_where_something_is_compared(pytester, arms):
    _, alone = plan_item(pytester, SOURCE, *arms)
    _, compared = plan_item(pytester, COMPARED, *arms)

    assert [arm.name for arm in alone.plan.arms] == ["v2"]
    assert [arm.name for arm in compared.plan.arms] == ["v2", "v1"]
    assert [contrast.baseline for contrast in compared.plan.contrasts] == ["v1"]


def test_a_part_of_the_samples_is_drawn_by_the_sessions_seed(pytester, arms):
    source = SOURCE.replace("metrics=", "limit=2, metrics=")
    drawn = {
        seed: tuple(sample.id for sample in plan_item(pytester, source, *arms, seed=seed)[1].dataset.samples)
        for seed in range(6)
    }
    _, again = plan_item(pytester, source, *arms, seed=3)

    assert len(set(drawn.values())) > 1
    assert tuple(sample.id for sample in again.dataset.samples) == drawn[3]
    assert (again.plan.selected, again.plan.selection.of) == (2, 4)


def test_all_samples_need_no_selection(pytester, arms):
    assert plan_item(pytester, SOURCE, *arms)[1].plan.selection is None


@pytest.mark.parametrize(
    ("mark", "setting", "seconds"),
    [("", 300.0, 300.0), ("timeout=5, ", 300.0, 5.0), ("timeout=0, ", 300.0, None), ("", 0, None)],
)
def test_the_time_limit_is_the_markers_before_the_sessions_and_0_is_none(pytester, arms, mark, setting, seconds):
    _, experiment = plan_item(pytester, SOURCE.replace("metrics=", f"{mark}metrics="), *arms, timeout=setting)

    assert experiment.timeout_s == seconds


def test_the_time_limit_is_part_of_the_fingerprint(pytester, arms):
    prints = [plan_item(pytester, SOURCE, *arms, timeout=timeout)[1].plan.fingerprint for timeout in (1.0, 2.0)]

    assert prints[0].sampling != prints[1].sampling
    assert prints[0].function == prints[1].function


def test_a_test_that_needs_a_model_needs_an_adapter(pytester):
    nameless = OpenedArm(Arm(name="candidate", role="candidate", adapter="", identity=""), None)

    with pytest.raises(SpecError, match="no adapter to evaluate: give --crucible-adapter=NAME"):
        plan_item(pytester, SOURCE, nameless)
    assert plan_item(pytester, SOURCE.replace(", sampler", "").replace("sampler.generate(sample.input)", "1"), nameless)


@pytest.mark.parametrize("name", ["sample", "sampler", "score"])
def test_a_fixture_that_an_argument_would_hide_is_refused(pytester, arms, name):
    fixture = f"\n    @pytest.fixture\n    def {name}():\n        pass\n"
    source = SOURCE.replace("(sample, sampler)", "(sample, sampler, score)") + fixture

    with pytest.raises(SpecError, match=f"'{name}' is a fixture of .*: rename the fixture"):
        plan_item(pytester, source, *arms)


def test_a_joined_tests_samples_are_its_items(pytester, arms):
    source = 'import pytest\n@pytest.mark.parametrize("k", [1, 2, 3])\ndef test_it(k, crucible):\n    pass\n'
    items = collect_items(pytester, source)
    data = SessionDatasets(items[0].config, 0)
    planner = ExperimentPlanner(items[0].config, default_settings(), tuple(arms), data)
    plan = planner.plan_joined_test("t::it", items, ["1", "2", "3"], 2)

    assert (plan.nodeid, plan.planned, plan.selected, plan.repeats) == ("t::it", 3, 2, 1)
    assert (plan.by_item, plan.open_metrics, plan.groups) == (True, True, None)
    assert [arm.name for arm in plan.arms] == ["v2"]


# -- datasets and metrics -------------------------------------------------------------------------------------------


def test_a_file_is_looked_for_beside_the_test_and_then_below_the_root_and_read_once(pytester):
    (pytester.path / "rows.jsonl").write_text('{"id": "root", "input": 1}\n')
    (item,) = collect_items(pytester, SOURCE.replace('[{"id": k, "input": k} for k in "abcd"]', '"rows.jsonl"'))
    datasets = SessionDatasets(item.config)
    first = datasets.samples(item, experiment_mark(item))
    (pytester.path / "rows.jsonl").write_text('{"id": "changed", "input": 1}\n')

    assert [sample.id for sample in first] == ["root"]
    assert datasets.samples(item, experiment_mark(item)) is first


def test_a_dataset_that_is_no_dataset_is_refused(pytester):
    (item,) = collect_items(pytester, SOURCE.replace('[{"id": k, "input": k} for k in "abcd"]', "5"))

    with pytest.raises(
        SpecError, match="dataset=5 cannot be used: pass a file, a name, a list of samples or a function"
    ):
        SessionDatasets(item.config).samples(item, experiment_mark(item))


def polite(reply, sample):
    return True


def test_metrics_are_named_or_given_and_those_beside_them_follow(pytester):
    beside = dataclasses.replace(as_metric(polite), facts=MetricFacts(name="rude"))
    judged_metric = dataclasses.replace(as_metric(polite), beside=(beside,), depends=lambda: "model 7")
    metrics = declared_metrics(opened_config(pytester), ["exact_match", judged_metric])

    assert [metric.name for metric in metrics] == ["exact_match", "polite", "rude"]
    assert metrics[1].facts.version == "model 7"


def test_a_misspelt_metric_is_refused_with_the_nearest_name(pytester):
    with pytest.raises(SpecError, match="metric 'exact_mach' is not registered: did you mean 'exact_match'"):
        declared_metrics(opened_config(pytester), ["exact_mach"])


def test_two_metrics_of_one_name_are_refused(pytester):
    with pytest.raises(SpecError, match="metric 'exact_match' is given twice"):
        declared_metrics(opened_config(pytester), ["exact_match", "exact_match"])
