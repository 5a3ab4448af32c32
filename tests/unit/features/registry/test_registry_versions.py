"""Registered versions: as the start of a training, and as an arm whose candidates are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from adapter_contexts import context_in
from answer_builders import arm, inputs_of

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import find_training_start
from pytest_crucible.features.registry import is_version
from pytest_crucible.features.registry import section as candidates
from pytest_crucible.features.registry.records import LogEntry, StoredWeights, Version
from pytest_crucible.features.registry.store import add_version, load_registry
from pytest_crucible.features.registry.version_names import registry_folder
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.sections.inputs import NoStoredDetails
from pytest_crucible.store.runs import RunStore

LOCAL = Version(
    model="claims",
    number=1,
    identity="v1",
    adapter=Adapter(name="v1", backend="local"),
    weights={"checkpoint": StoredWeights(sha256="c0ffee", file="adapter.safetensors")},
)
SERVED = replace(
    LOCAL,
    adapter=Adapter(name="v1", backend="tinker", options={"model_path": "tinker://run/sampler_weights/v1"}),
    weights={},
    lineage={"checkpoint": "tinker://run/sampler_weights/v1", "state": "tinker://run/weights/v1"},
)


def context_with(version: Version, root: Path) -> AdapterContext:
    store = RunStore(str(root / f"{uuid4().hex}.db"))
    entry = LogEntry(at="2026-11-01", action="register", model="claims", number=1, state="draft")
    assert add_version(store, load_registry(store), version, entry)
    return replace(context_in(root), store=lambda: store)


@pytest.mark.parametrize("number", ["1" * 5000, "١", "²", "-1", ""])
def test_only_a_number_that_a_version_may_have_names_one(number):
    assert is_version("claims@1")
    assert not is_version(f"claims@{number}")


def test_local_weights_are_those_that_the_registry_keeps(tmp_path):
    context = context_with(LOCAL, tmp_path)
    weights = registry_folder(context.root, context.settings.store) / "c0ffee" / "adapter.safetensors"
    with pytest.raises(SpecError, match="weights of claims@1 are not here"):
        find_training_start("claims@1", context)
    weights.parent.mkdir(parents=True)
    weights.touch()

    assert Path(find_training_start("claims@1", context)) == weights
    assert find_training_start("elsewhere.safetensors", context) == "elsewhere.safetensors"


def test_a_service_resumes_from_the_state_and_not_from_the_sampled_weights(tmp_path):
    assert find_training_start("claims@1", context_with(SERVED, tmp_path)) == "tinker://run/weights/v1"
    with pytest.raises(SpecError, match="claims@1 has no weights to train from"):
        find_training_start("claims@1", context_with(replace(SERVED, lineage=None), tmp_path))


@pytest.mark.parametrize("name", ["production", "claims@production", "claims@staged"])
def test_a_name_that_may_mean_another_version_tomorrow_is_refused(name, tmp_path):
    with pytest.raises(SpecError, match="would not be trained again: name a version by its number, such as claims@1"):
        find_training_start(name, context_with(LOCAL, tmp_path))


class Measured(NoStoredDetails):
    def __init__(self, number: int) -> None:
        self.number = number

    def candidates_on_samples(self) -> int:
        return self.number


def notes(number: int, baseline: str) -> list[str]:
    inputs = inputs_of(arm(a=[True, False]), arm(a=[True, True]), stored=Measured(number))
    first, second = inputs.plan.arms
    inputs = replace(inputs, plan=replace(inputs.plan, arms=(first, replace(second, name=baseline))), alpha=0.00032)
    count = candidates.compute(inputs)
    return [] if count is None else [note.text for note in candidates.view(count, ()).notes]


@pytest.mark.parametrize(("number", "baseline"), [(1, "claims@2"), (12, "v1"), (12, "a@b")])
def test_the_first_candidate_and_runs_without_a_version_have_no_note(number, baseline):
    assert notes(number, baseline) == []


def test_a_later_candidate_is_counted():
    assert notes(12, "claims@2") == ["v2: 12th candidate on these 2 samples, decided at alpha 0.00032"]
