"""Opening arms by name: once each, with members, and without pytest."""

from __future__ import annotations

import dataclasses

import pytest
from adapter_contexts import context_in, default_settings

from pytest_crucible.adapters.opened_arm import collect_backends, collect_names
from pytest_crucible.adapters.opener import Opener, check_distinct, open_arms
from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.features.sweeps.families import open_family
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, UnknownSetting

ADAPTERS = """
[adapters]
v1 = "recorded:v1.jsonl"
v2 = "recorded:v2.jsonl"
both = { ensemble = ["v1", "v2"] }
ring = { ensemble = ["v1", "chain"] }
chain = { ensemble = ["v2", "ring"] }
lost = { ensemble = ["v1", "v9"] }
theirs = { backend = "theirs" }
families = { ensemble = ["v1", "tuned"] }

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


def refusal(function, *arguments) -> str:
    with pytest.raises(SpecError) as caught:
        function(*arguments)
    return str(caught.value)


def test_a_configured_adapter_is_opened_once(project):
    opener = Opener(context_in(project))

    first, second = opener.open("v1", "candidate"), opener.open("v1", "baseline")

    assert first.backend is second.backend
    assert (first.arm.role, second.arm.role) == ("candidate", "baseline")


def test_members_are_shared_with_arms(project):
    opener = Opener(context_in(project))

    opened = [opener.open("v1", "candidate"), opener.open("both", "baseline")]

    assert collect_names(opened) == ["v1", "both", "v1", "v2"]
    assert len(collect_backends(opened)) == 3
    assert opened[1].arm.members == ("v1", "v2")


def test_a_path_on_the_command_line_is_relative_to_where_pytest_was_started(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "v3.jsonl").write_text('{"sample_id": "a", "text": "v3"}\n')
    context = dataclasses.replace(context_in(project), invocation_folder=elsewhere)

    assert Opener(context).open("recorded:v3.jsonl", "candidate").backend is not None


@pytest.mark.parametrize("name", ["theirs", "v1"], ids=["a kind of their own", "a kind that is built in"])
def test_users_open_backends(project, name):
    theirs = ScriptedBackend(lambda request: "4", identity="theirs")
    theirs.training = summarise_training([4.0, 1.0], [1.0, 1.0])
    context = dataclasses.replace(
        context_in(project), open_user_backend=lambda adapter: theirs if adapter.name == name else None
    )
    arm = Opener(context).open(name, "candidate").arm

    assert (arm.identity, arm.training) == ("theirs", theirs.training)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ring", "adapter 'ring' is an ensemble of itself (ring > chain > ring): name other adapters as members"),
        ("lost", "ensemble 'lost': adapter 'v9' is not configured: known adapters are both, chain, families, lost, ring, "
         "theirs, tuned, v1, v2"),
        ("families", "ensemble 'families': adapter 'tuned' is a family, and a member is one model: name one of its members, "
         "such as 'tuned[path=v2.jsonl]'"),
        ("tuned[path=v9.jsonl]", "adapter 'tuned[path=v9.jsonl]' is not configured: did you mean 'tuned[path=v3.jsonl]'? "
         "known adapters are both, chain, families, lost, ring, theirs, tuned, v1, v2"),
        ("theirs", "adapter 'theirs' has backend 'theirs', which neither the package nor a plugin provides: "
         "write one of guard, local, openai, recorded, scripted, tinker, vllm"),
    ],
    ids=["itself", "unknown member", "family as a member", "unknown member of a family", "backend"],
)  # fmt: skip
def test_adapters_that_cannot_be_opened_are_refused(project, name, sentence):
    assert refusal(Opener(context_in(project)).open, name, "candidate") == sentence


@pytest.mark.parametrize("name", ["run:4f1c", "tag:nightly"])
def test_stored_replies_are_a_baseline_only(project, name):
    opener = Opener(context_in(project))
    arm = opener.open(name, "baseline")

    assert arm.backend is None
    assert arm.arm.stored_run == name.removeprefix("run:")
    assert refusal(opener.open, name, "candidate") == (
        f"--crucible-adapter={name}: a stored run can only be a baseline: name it with --compare"
    )


def test_all_problems_are_reported_together(project):
    settings = default_settings(adapter="theirs", compare=("v9",))
    sentence = refusal(open_arms, Opener(context_in(project)), settings)

    assert [line.partition(":")[0] for line in sentence.splitlines()] == [
        "adapter 'theirs' has backend 'theirs', which neither the package nor a plugin provides",
        "adapter 'v9' is not configured",
    ]


def test_a_session_without_an_adapter_has_an_arm_of_its_own(project):
    (arm,) = open_arms(Opener(context_in(project)), default_settings())

    assert (arm.arm.name, arm.backend) == ("candidate", None)


# -- families -------------------------------------------------------------------------------------------------------


def open_compared_arms(project, candidate, *baselines):
    opener = Opener(context_in(project))
    arms = open_arms(opener, default_settings(adapter=candidate, compare=baselines))
    check_distinct(arms, opener.context.typed_names)
    return arms


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
        (("tuned",), "path =", "paths =", "adapter 'tuned' sweeps 'paths', which backend 'recorded' does not know: did you mean "),
        (("tuned", "v1"), "v3", "v1", "adapters 'tuned[path=v1.jsonl]' and 'v1' are the same checkpoint"),
        (("tuned",), "v3", "./v2", f"{MEMBERS[0]} and tuned[path=./v2.jsonl] are the same checkpoint: remove path from the s"),
        (("tuned",), 'by = "ok"', "seeds = [1]", "adapter 'tuned' in "),
    ],
)  # fmt: skip
def test_invalid_families_are_refused(project, arms, old, new, sentence):
    file = project / "crucible.toml"
    file.write_text(file.read_text().replace(old, new, 1) if old else file.read_text())

    assert refusal(open_compared_arms, project, *arms).startswith(sentence)


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
