"""The lineage of an arm: what is known of the trainings behind its weights, and what is not."""

from __future__ import annotations

from pytest_crucible.features.provenance.made_from import arm_lineages
from pytest_crucible.records import Ancestor, Arm

V1 = Ancestor(weights="88f1", name="v1", recipe="r:v1", recipe_sha256="a0", files={"0c1e": "train.jsonl"})
V2 = Ancestor(
    weights="5be0", name="v2", recipe="r:v2", recipe_sha256="c90d", files={"77aa": "more.jsonl"}, parent="88f1"
)


def arm(*ancestry: Ancestor, **trained_on: str) -> Arm:
    files = {f"{sha256}": name for sha256, name in trained_on.items()}
    return Arm(name="v2", role="candidate", adapter="local:v2", identity="x", ancestry=ancestry, trained_on=files)


def test_the_parent_of_weights_is_the_training_that_made_what_it_started_from():
    [lineage] = arm_lineages(arm(V2, V1))

    assert [(part.training.name, part.training.weights, dict(part.training.files)) for part in lineage.chain] == [
        ("v2", "5be0", {"77aa": "more.jsonl"}),
        ("v1", "88f1", {"0c1e": "train.jsonl"}),
    ]


def test_a_training_that_resumed_from_a_state_of_a_service_has_that_states_training_as_parent():
    first = Ancestor(weights="tinker://a/sampler/1", state="tinker://a/weights/1", files={})
    second = Ancestor(weights="tinker://b/sampler/1", files={}, parent="tinker://a/weights/1")
    [lineage] = arm_lineages(arm(second, first))

    assert [part.training for part in lineage.chain] == [second, first]


def test_a_parent_of_unknown_origin_is_its_hash_alone():
    [lineage] = arm_lineages(arm(V2, e1="old.jsonl"))

    assert lineage.parent is not None
    assert lineage.parent.training == Ancestor(weights="88f1")
    assert lineage.earlier_files == {"e1": "old.jsonl"}


def test_the_files_that_are_declared_for_weights_of_unknown_origin_are_theirs():
    [lineage] = arm_lineages(arm(Ancestor(weights="5be0"), e1="old.jsonl"))

    assert lineage.training == Ancestor(weights="5be0", files={"e1": "old.jsonl"})
    assert lineage.earlier_files == {}


def test_of_a_run_before_format_11_the_files_alone_are_known():
    [lineage] = arm_lineages(arm(e1="old.jsonl"))

    assert lineage.training == Ancestor(weights=None, files={"e1": "old.jsonl"})


def test_a_base_has_no_lineage():
    assert arm_lineages(arm()) == ()


def test_each_member_of_an_ensemble_has_a_lineage_of_its_own():
    other = Ancestor(weights="aa11", name="other", files={})

    assert [lineage.training.name for lineage in arm_lineages(arm(V2, V1, other))] == ["v2", "other"]
