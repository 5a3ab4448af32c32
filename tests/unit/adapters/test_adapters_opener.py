"""Opening arms by name: once each, with members, and without pytest."""

from __future__ import annotations

import dataclasses

import pytest
from adapter_contexts import context_in, default_settings

from pytest_crucible.adapters.opened_arm import collect_backends, collect_names
from pytest_crucible.adapters.opener import Opener, open_arms
from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.records.errors import SpecError

ADAPTERS = """
[adapters]
v1 = "recorded:v1.jsonl"
v2 = "recorded:v2.jsonl"
both = { ensemble = ["v1", "v2"] }
ring = { ensemble = ["v1", "chain"] }
chain = { ensemble = ["v2", "ring"] }
lost = { ensemble = ["v1", "v9"] }
theirs = { backend = "theirs" }
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "crucible.toml").write_text(ADAPTERS)
    for name in ("v1", "v2"):
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


def test_an_ensemble_of_itself_is_refused(project):
    assert refusal(Opener(context_in(project)).open, "ring", "candidate") == (
        "adapter 'ring' is an ensemble of itself (ring > chain > ring): name other adapters as members"
    )


def test_a_member_that_is_unknown_is_refused(project):
    assert refusal(Opener(context_in(project)).open, "lost", "candidate") == (
        "ensemble 'lost': adapter 'v9' is not configured: known adapters are both, chain, lost, ring, theirs, v1, v2"
    )


def test_a_path_on_the_command_line_is_relative_to_where_pytest_was_started(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "v3.jsonl").write_text('{"sample_id": "a", "text": "v3"}\n')
    context = dataclasses.replace(context_in(project), invocation_folder=elsewhere)

    assert Opener(context).open("recorded:v3.jsonl", "candidate").backend is not None


def test_users_open_backends_of_their_own(project):
    theirs = ScriptedBackend(lambda request: "4", identity="theirs")
    context = dataclasses.replace(
        context_in(project), open_user_backend=lambda adapter: theirs if adapter.backend == "theirs" else None
    )

    assert Opener(context).open("theirs", "candidate").arm.identity == "theirs"


def test_an_arm_says_how_its_weights_were_trained(project):
    theirs = ScriptedBackend(lambda request: "4", identity="theirs")
    theirs.training = summarise_training([4.0, 1.0], [1.0, 1.0])
    context = dataclasses.replace(context_in(project), open_user_backend=lambda adapter: theirs)

    assert Opener(context).open("theirs", "candidate").arm.training == theirs.training


def test_users_may_replace_a_kind_that_is_built_in(project):
    theirs = ScriptedBackend(lambda request: "4", identity="theirs")
    context = dataclasses.replace(context_in(project), open_user_backend=lambda adapter: theirs)

    assert Opener(context).open("v1", "candidate").arm.identity == "theirs"


def test_a_backend_that_nothing_provides(project):
    assert refusal(Opener(context_in(project)).open, "theirs", "candidate") == (
        "adapter 'theirs' has backend 'theirs', which neither the package nor a plugin provides: "
        "write one of guard, local, openai, recorded, scripted, tinker"
    )


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
