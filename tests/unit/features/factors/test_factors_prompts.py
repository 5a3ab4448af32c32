"""Forms of the prompt, and the variable `prompt` of an adapter, are the argument `prompt` of a test function."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from experiment_builders import ALONE, plan_item, scripted_arm

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.factors.declarations import read_fixed
from pytest_crucible.features.factors.prompts import read_arm_prompts
from pytest_crucible.records import Unit
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.run_entry import arm_fingerprint

SOURCE = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": k, "input": k} for k in "abcd"], metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    def test_it(sample, sampler, prompt):
        return sampler.generate(prompt + sample.input)
"""


def prompted_arm(name="v2", role="candidate", **variables):
    opened = scripted_arm(lambda request: "a", name, role)
    return replace(opened, arm=replace(opened.arm, variables=variables))


def family(*prompts):
    members = tuple(prompted_arm(f"tuned[{prompt}]", prompt=prompt) for prompt in prompts)
    return replace(prompted_arm("tuned"), competitors=members)


def prompt_of(experiment, arm):
    unit = Unit(0, 0, arm, 0)
    bound = SimpleNamespace(experiment=experiment, unit=unit, sample=experiment.sample(unit))
    return experiment.arguments["prompt"](bound)


def refusal(pytester, source: str, *arms: OpenedArm) -> str:
    with pytest.raises(SpecError) as refused:
        plan_item(pytester, source, *arms)
    return str(refused.value)


def test_an_arm_has_the_text_of_its_file_or_the_text_itself(pytester):
    (pytester.path / "terse.txt").write_text("Be terse. ")
    arms = prompted_arm(prompt="terse.txt"), prompted_arm("v1", "baseline", prompt="Be polite.")

    _, experiment = plan_item(pytester, SOURCE, *arms)

    assert [prompt_of(experiment, arm) for arm in (0, 1)] == ["Be terse. ", "Be polite."]
    assert "prompt" in experiment.injected


def test_two_files_of_one_name_must_have_one_text(pytester):
    # pytester's test lies in a folder of its own here.
    (pytester.path / "terse.txt").write_text("Be terse.")
    beside = pytester.mkdir("suite")
    (beside / "terse.txt").write_text("Be brief.")
    item = pytester.getitem(SOURCE, "test_it")
    item.path = beside / "test_it.py"

    with pytest.raises(
        SpecError, match=r"the prompt 'terse.txt' has one text in .*suite and another in .*: remove one"
    ):
        read_arm_prompts(item, item.function, (), (prompted_arm(prompt="terse.txt"),))
    (beside / "terse.txt").write_text("Be terse.")
    assert read_arm_prompts(item, item.function, (), (prompted_arm(prompt="terse.txt"),)) == {"v2": "Be terse."}


def test_a_changed_text_makes_other_stored_replies_of_that_arm_alone(pytester):
    arms, keys = (prompted_arm(prompt="terse.txt"), prompted_arm("v1", "baseline", prompt="Be polite.")), []
    for text in ("Be terse.", "Be brief."):
        (pytester.path / "terse.txt").write_text(text)
        _, experiment = plan_item(pytester, SOURCE, *arms)
        keys.append([arm_fingerprint(experiment.plan, arm) for arm in (0, 1)])

    assert keys[0][0] != keys[1][0]
    assert keys[0][1] == keys[1][1]


def test_members_of_a_family_have_their_own_prompts(pytester):
    _, experiment = plan_item(pytester, SOURCE.replace("@pytest.mark.ab", "# "), family("Be terse.", "Be polite."))

    assert experiment.arguments["prompt"].arm_texts == {
        "tuned[Be terse.]": "Be terse.",
        "tuned[Be polite.]": "Be polite.",
    }


def test_refusals_name_the_adapter_and_what_to_do(pytester):
    (pytester.path / "terse.txt").write_text("Be terse.")
    (pytester.path / "same.txt").write_text("Be terse.")
    v2, plain = prompted_arm(prompt="terse.txt"), prompted_arm("v1", "baseline")
    without = SOURCE.replace(", prompt)", ")").replace("prompt + ", "")
    beside = SOURCE.replace("metrics=", 'prompts=["terse.txt", "same.txt"], metrics=')

    assert "adapter 'v2' has variables.prompt, and test_it has no argument 'prompt'" in refusal(pytester, without, v2)
    assert "there is no prompt 'tense.txt'" in refusal(pytester, SOURCE, prompted_arm(prompt="tense.txt"))
    assert "did you mean 'terse.txt'" in refusal(pytester, SOURCE, prompted_arm(prompt="tense.txt"))
    assert "adapter 'v1' has none" in refusal(pytester, SOURCE, v2, plain)
    same = refusal(pytester, SOURCE, family("terse.txt", "same.txt"))
    assert same == "the prompts 'terse.txt' and 'same.txt' have the same text: keep one of them"
    (pytester.path / "same.txt").write_text("Be polite.")
    assert "test_it has prompts= and adapter 'v2' has variables.prompt" in refusal(pytester, beside, v2)


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (["terse.txt", "polit.txt"], "there is no prompt 'polit.txt' in .*; did you mean 'polite.txt'"),
        (["terse.txt"], "has 1 prompt: give at least two forms of the prompt .a verdict needs three"),
        ([], "has 0 prompts: give at least two"),
        (["terse.txt", "terse.txt"], "names the prompt 'terse.txt' twice: name each once"),
        (["terse.txt", "copy.txt"], "the prompts 'terse.txt' and 'copy.txt' have the same text: keep one of them"),
        (["terse.txt", "empty.txt"], "empty.txt is empty: write the prompt into it"),
        (["terse.txt", "bytes.txt"], "bytes.txt cannot be read as text: "),
        (["terse.txt", 3], "has 3 among its prompts: write the name of a file"),
        ("terse.txt", "prompts='terse.txt': write a list of files, each with one form of the prompt"),
    ],
)
def test_invalid_forms_are_refused(pytester, declared, sentence):
    for name, text in (("terse", "Be terse."), ("polite", "Be polite."), ("copy", "Be terse."), ("empty", "\n")):
        (pytester.path / f"{name}.txt").write_text(text)
    (pytester.path / "bytes.txt").write_bytes(b"\xff\xfe")

    with pytest.raises(SpecError, match=sentence):
        plan_item(pytester, SOURCE.replace("metrics=", f"prompts={declared!r}, metrics="), scripted_arm(str))


FIXTURE = "\n    @pytest.fixture\n    def prompt():\n        return 'mine'\n"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            SOURCE.replace(", prompt)", ")"),
            "test_it has prompts= and no argument 'prompt': add the argument, which receives",
        ),
        (SOURCE + FIXTURE, "'prompt' is a fixture of .*, but inside an experiment it is what"),
    ],
    ids=["no argument", "a fixture of this name"],
)
def test_forms_need_an_argument_of_their_own(pytester, source, sentence):
    for name in ("terse", "polite"):
        (pytester.path / f"{name}.txt").write_text(f"Be {name}.")

    with pytest.raises(SpecError, match=sentence):
        plan_item(
            pytester, source.replace("metrics=", "prompts=['terse.txt', 'polite.txt'], metrics="), scripted_arm(str)
        )


@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        ("round", "fixed='round', and 'round' is not a factor: did you mean 'rounds'"),
        (["prompts", "seeds"], "'seeds' is not a factor: the factors are prompts, trainings, rounds"),
        (3, "fixed=3: write one or several of prompts, trainings, rounds"),
    ],
)
def test_an_unknown_factor_cannot_be_fixed(fixed, sentence):
    with pytest.raises(SpecError, match=sentence):
        read_fixed(fixed)


@pytest.mark.parametrize("rounds", ["0", "-1"])
def test_there_is_at_least_one_round(pytester, rounds):
    with pytest.raises(pytest.UsageError, match=f"crucible_rounds is {rounds}: write a whole number of at least 1"):
        pytester.parseconfigure(*ALONE, f"--crucible-rounds={rounds}")
