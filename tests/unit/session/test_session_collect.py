"""The experiments of a session are planned before the first request, and all errors are gathered."""

from __future__ import annotations

from typing import Any

import pytest
from adapter_contexts import default_settings
from experiment_builders import ALONE, collect_items, make_resources

from pytest_crucible.records.errors import StoreError
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.resources import Resources

EXPERIMENT = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": "a", "input": 1}], metrics=[])
    @pytest.mark.quality_target("right >= 0.5")
    @pytest.mark.ab_compare("right")
    def test_it(sample, sampler, score):
        score(right=True)
"""
JOINED = """
    import pytest

    @pytest.mark.parametrize("question", ["a", "b"])
    @pytest.mark.quality_target("right >= 0.5")
    def test_it(question, crucible):
        crucible.score(right=True)
"""
ARMS = {"adapter": "recorded:v2.jsonl", "compare": ("recorded:v1.jsonl",)}


@pytest.fixture(autouse=True)
def _answers(pytester: pytest.Pytester) -> None:
    for name in ("v1", "v2"):
        (pytester.path / f"{name}.jsonl").write_text(f'{{"sample_id": "a", "text": "{name}"}}\n')


def collect(resources: Resources, items: list[pytest.Function], **settings: Any) -> ExperimentCollection:
    collection = ExperimentCollection(items[0].config, default_settings(**{**ARMS, **settings}), resources)
    collection.marked.remember(items)
    collection.plan_items(items)
    return collection


def test_an_experiment_is_planned_on_all_arms_and_announced(pytester, resources):
    (item,) = collect_items(pytester, EXPERIMENT)
    collection = collect(resources, [item])

    (plan,) = collection.plans()
    assert collection.problems == []
    assert [(arm.role, arm.name) for arm in plan.arms] == [
        ("candidate", "recorded:v2.jsonl"),
        ("baseline", "recorded:v1.jsonl"),
    ]
    assert list(collection.lines) == [item.nodeid]
    assert collection.marked.experiment_of(item) == item.nodeid


def test_the_items_of_a_joined_test_are_one_plan(pytester, resources):
    items = collect_items(pytester, JOINED)
    collection = collect(resources, items)

    (plan,) = collection.plans()
    assert (plan.planned, plan.selected, plan.by_item) == (2, 2, True)
    assert {collection.marked.experiment_of(item) for item in items} == {plan.nodeid}


def test_items_that_were_deselected_count_as_planned_and_not_as_selected(pytester, resources):
    items = collect_items(pytester, JOINED)
    collection = ExperimentCollection(items[0].config, default_settings(**ARMS), resources)
    collection.marked.remember(items)
    collection.plan_items(items[1:])

    (plan,) = collection.plans()
    assert (plan.planned, plan.selected) == (2, 1)
    assert collection.joined[plan.nodeid].positions == {"a": 0, "b": 1}


def test_ordinary_tests_open_nothing(pytester, resources):
    items = collect_items(pytester, "def test_it():\n    pass\n")
    collection = collect(resources, items, adapter="no such adapter")

    assert (collection.plans(), collection.problems, collection.opened_arms) == ([], [], ())
    assert not collection.store_plans("run")
    assert collection.marked.experiment_of(items[0]) is None
    assert "store" not in vars(resources)


# -- errors ---------------------------------------------------------------------------------------------------------


def test_errors_of_all_items_are_gathered_each_with_its_test(pytester, resources):
    source = EXPERIMENT.replace("def test_it(", '@pytest.mark.parametrize("k", [1, 2])\n    def test_it(k, ')
    items = collect_items(pytester, source.replace('"right >= 0.5"', '"right >>> 0.5"'))
    collection = collect(resources, items)

    assert [problem.partition(": ")[0] for problem in collection.problems] == [item.nodeid for item in items]
    assert collection.plans() == []


def test_nothing_is_stored_where_any_test_has_an_error(pytester, resources):
    good, bad = EXPERIMENT, EXPERIMENT.replace("test_it", "test_other").replace('"right >= 0.5"', '"right >>> 0.5"')
    module = pytester.getmodulecol(good + bad, configargs=ALONE)
    items = [item for item in pytester.genitems([module]) if isinstance(item, pytest.Function)]
    collection = collect(resources, items)
    collection.store_plans("run")

    assert len(collection.plans()) == len(collection.problems) == 1
    assert resources.store.scalar("SELECT COUNT(*) FROM runs") == 0


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (JOINED.replace("(question, crucible)", "(question)"), "has a quality target or a comparison but is not an"),
        (
            "import pytest, unittest\nclass TestIt(unittest.TestCase):\n    @pytest.mark.crucible(dataset=[1])\n"
            "    def test_it(self):\n        pass\n",
            "a method of a unittest.TestCase cannot be an experiment",
        ),
    ],
    ids=["not joined", "unittest"],
)
def test_a_marker_without_effect_is_an_error(pytester, resources, source, sentence):
    collection = collect(resources, collect_items(pytester, source))

    assert collection.problems
    assert sentence in collection.problems[0]


def test_an_unknown_adapter_is_an_error_of_the_session(pytester, resources):
    collection = collect(resources, collect_items(pytester, EXPERIMENT), adapter="v9")

    (problem,) = collection.problems
    assert "v9" in problem
    assert collection.plans() == []


def test_stored_answers_of_a_changed_experiment_are_refused(pytester, resources):
    collection = collect(resources, collect_items(pytester, EXPERIMENT))
    assert collection.store_plans("first")
    (plan,) = collection.plans()
    resources.store.add_arm(resources.store.experiments("first")[0][0], 0, plan.arms[0].name, "")
    same = collect(resources, collect_items(pytester, EXPERIMENT), compare=("run:first",))
    changed = collect(resources, collect_items(pytester, EXPERIMENT.replace("True", "False")), compare=("run:first",))

    assert same.problems == []
    assert same.plans()[0].arms[1].stored_run == "first"
    assert len(changed.problems) == 1
    assert "cannot be compared with: test function changed since run first" in changed.problems[0]


# -- the run store --------------------------------------------------------------------------------------------------


def test_run_and_plans_are_stored_before_the_first_request(pytester, resources):
    items = collect_items(pytester, EXPERIMENT)
    collection = collect(resources, items, seed=7, alpha=0.01, tag=("nightly",))

    assert collection.store_plans("run")
    facts = resources.store.run("run")
    assert (facts["seed"], facts["alpha"], facts["status"]) == (7, 0.01, "running")
    assert [plan.nodeid for _, plan, _ in resources.store.experiments("run")] == [items[0].nodeid]
    assert resources.store.find_run("tag:nightly") == "run"


def test_an_invalid_tag_leaves_no_run(pytester, resources):
    collection = collect(resources, collect_items(pytester, EXPERIMENT), tag=("good", "two words"))
    collection.store_plans("run")

    assert "two words" in collection.problems[0]
    assert resources.store.scalar("SELECT COUNT(*) FROM runs") == 0


@pytest.mark.parametrize("how", ["collect-only", "sample"])
def test_a_session_that_sends_no_requests_stores_nothing(pytester, resources, how):
    items = collect_items(pytester, EXPERIMENT)
    items[0].config.option.collectonly = how == "collect-only"
    collection = collect(resources, items, sample="a" if how == "sample" else None)

    assert len(collection.plans()) == 1
    assert not collection.store_plans("run")
    assert "store" not in vars(resources)


def test_nothing_is_planned_for_a_store_that_cannot_be_opened(pytester):
    (pytester.path / "folder").mkdir()
    resources = make_resources(pytester, store="folder")
    collection = collect(resources, collect_items(pytester, EXPERIMENT))

    assert not collection.store_plans("run")
    assert (collection.plans(), collection.problems) == ([], [])
    assert "cannot be opened" in collection.unusable_store.sentence
    with pytest.raises(StoreError):
        _ = resources.store
    resources.close()
