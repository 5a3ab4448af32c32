"""Adapters with a sweep: a family and its members, opened by name."""

from __future__ import annotations

import dataclasses

import pytest
from adapter_contexts import context_in, default_settings

from pytest_crucible.adapters.open import check_distinct, open_arms
from pytest_crucible.adapters.opened_arm import collect_backends, collect_names
from pytest_crucible.adapters.opener import Opener
from pytest_crucible.features.sweeps.families import open_family
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, UnknownSetting

ADAPTERS = """
[adapters]
v1 = "recorded:v1.jsonl"
both = { ensemble = ["v1", "tuned"] }

[adapters.tuned]
backend = "recorded"

[adapters.tuned.sweep]
path = ["v2.jsonl", "v3.jsonl"]
by = "ok"
"""
MEMBERS = ["tuned[path=v2.jsonl]", "tuned[path=v3.jsonl]"]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "crucible.toml").write_text(ADAPTERS)
    for name in ("v1", "v2", "v3"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"sample_id": "a", "text": "{name}"}}\n')
    return tmp_path


def open_compared_arms(project, candidate, *baselines):
    opener = Opener(context_in(project))
    arms = open_arms(opener, dataclasses.replace(default_settings(), adapter=candidate, compare=baselines))
    check_distinct(arms, opener.typed_names)
    return arms


def refusal(project, candidate, *baselines):
    with pytest.raises(SpecError) as caught:
        open_compared_arms(project, candidate, *baselines)
    return str(caught.value)


def test_a_family_is_opened_with_its_members(project):
    family, baseline = open_compared_arms(project, "tuned", "v1")

    assert collect_names([family]) == ["tuned", *MEMBERS]
    assert len(collect_backends([family, baseline])) == 3
    assert (family.arm.name, family.arm.role) == ("tuned", "candidate")
    assert family.arm.identity not in {member.arm.identity for member in family.competitors}


def test_a_member_is_an_adapter(project):
    member, baseline = open_compared_arms(project, MEMBERS[0], MEMBERS[1])

    assert (member.arm.name, baseline.arm.role) == (MEMBERS[0], "baseline")
    assert not member.competitors


@pytest.mark.parametrize(
    ("arms", "old", "new", "sentence"),
    [
        (("v1", "tuned"), "", "", "adapter 'tuned' is a family, of which a winner is chosen, so it can only be the candidate: "),
        (("both",), "", "", "ensemble 'both': adapter 'tuned' is a family, and a member is one model: name one of its"),
        (("tuned[path=v9.jsonl]",), "", "", "adapter 'tuned[path=v9.jsonl]' is not configured: did you mean 'tuned[path"),
        (("v9",), "", "", "adapter 'v9' is not configured: known adapters are both, tuned, v1"),
        (("tuned",), "path =", "paths =", "adapter 'tuned' sweeps 'paths', which backend 'recorded' does not know: did you mean "),
        (("tuned", "v1"), "v3", "v1", "adapters 'tuned[path=v1.jsonl]' and 'v1' are the same checkpoint"),
        (("tuned",), "v3", "./v2", f"{MEMBERS[0]} and tuned[path=./v2.jsonl] are the same checkpoint: remove path from the s"),
        (("tuned",), 'by = "ok"', "seeds = [1]", "adapter 'tuned' in "),
    ],
)  # fmt: skip
def test_what_is_refused(project, arms, old, new, sentence):
    file = project / "crucible.toml"
    file.write_text(file.read_text().replace(old, new, 1) if old else file.read_text())

    assert refusal(project, *arms).startswith(sentence)


@pytest.mark.parametrize(
    ("swept", "sentence"),
    [
        ("lora.rnak", "adapter 'tuned' sweeps 'lora.rnak', which no LoRA adapter has"),
        ("lora", "adapter 'tuned' has 'lora.rnak', which no LoRA adapter has"),
    ],
)
def test_an_unknown_key_names_the_family_whose_table_has_it(swept, sentence):
    def open_member(name):
        raise UnknownSetting(name, "lora.rnak", ", which no LoRA adapter has")

    family = Adapter(name="tuned", backend="local", options={"sweep": {swept: [8, 32]}}, parameters={})

    with pytest.raises(SpecError) as caught:
        open_family(family, "candidate", open_member)

    assert str(caught.value) == sentence
