"""Training by a recipe: what it is handed, what is written down, and every way in which it can go wrong."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_base import CONTEXT, write_tiny_base
from training_builders import ROWS, make_recipe, steps, train_recipe

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.adapter_store import track_reads
from pytest_crucible.features.training.log import TrainingStopped
from pytest_crucible.features.training.recipe import Recipe, find_recipe, find_trained
from pytest_crucible.features.training.trainer import EmbeddedBase, EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.records import Lineage
from pytest_crucible.records.errors import DatasetError, SpecError
from pytest_crucible.records.files import file_lock, hash_file
from pytest_crucible.records.redaction import hider
from pytest_crucible.records.serialize import from_plain, to_plain

SPEC = LoraSpec(rank=4, seed=3)


# -- the trainer --------------------------------------------------------------------------------------------------


def test_the_loss_of_a_row_is_multiplied_by_its_weight(trainer):
    plain, heavy = trainer.datums([ROWS[0], {**ROWS[0], "weight": 2.5}])

    assert heavy.inputs["weights"].tolist() == (2.5 * plain.inputs["weights"]).tolist()
    for wrong in ("2", -1, float("inf"), True):
        with pytest.raises(DatasetError, match="write a number of at least 0"):
            trainer.datums([{**ROWS[0], "weight": wrong}])


def test_a_completion_and_its_end_count_and_the_prompt_does_not(trainer):
    (datum,) = trainer.datums([{"prompt": "sum of", "completion": " five"}])

    sent, answer = trainer.tokenizer.encode("sum of"), [*trainer.tokenizer.encode(" five"), trainer.tokenizer.eos]
    assert [*datum.tokens, datum.inputs["target_tokens"][-1]] == sent + answer
    assert datum.inputs["target_tokens"][datum.inputs["weights"] > 0].tolist() == answer


def test_messages_are_a_prompt_and_the_last_one_the_completion(trainer):
    system, user, answer = (
        {"role": role, "content": content}
        for role, content in (("system", "Be short."), ("user", "Sum?"), ("assistant", "five"))
    )
    chats = trainer.datums([{"messages": [system, user, answer]}, {"messages": [user, answer]}])
    plain = trainer.datums(
        [
            {"prompt": "Be short.\n\nQuestion: Sum?\nAnswer:", "completion": " five"},
            {"prompt": "Sum?", "completion": "five"},
        ]
    )

    assert [item.tokens for item in chats] == [item.tokens for item in plain]


def test_rows_may_be_a_file_beside_the_recipe(trainer, tmp_path):
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))

    assert [item.tokens for item in trainer.datums("train.jsonl")] == [item.tokens for item in trainer.datums(ROWS)]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "the rows to train on are empty: write 'prompt' and 'completion', or 'messages' with the completion last"),
        ([{"prompt": "a"}], "row 1 to train on has no text to train on: write 'prompt' and 'completion', or "),
        (["a"], "row 1 to train on has no text to train on"),
        ([{"messages": [{"role": "user", "content": "a"}]}], "row 1 to train on has no text to train on"),
        ([{"messages": "hello"}], "row 1 to train on has no text to train on"),
        (
            [*ROWS, {"prompt": "9" * 60, "completion": "b"}],
            f"row 9 to train on has 61 tokens, the model's context is {CONTEXT}",
        ),
        ("gone.jsonl", "training data '"),
    ],
    ids=["none", "no completion", "text", "one message", "no messages", "long", "no file"],
)
def test_rows_that_cannot_be_trained_on(trainer, rows, sentence):
    with pytest.raises(DatasetError) as caught:
        trainer.datums(rows)

    assert str(caught.value).startswith(sentence)


def test_steps_are_written_down(trainer):
    steps(trainer, 12)

    log = trainer.log
    assert len(log.losses) == len(log.gradient_norms) == 12
    assert log.learning_rates == [1e-2] * 12
    assert log.losses[-1] < log.losses[0]
    assert log.settings["loss"] == {"cross_entropy"}
    assert log.settings["rows"] == {4}
    assert log.settings["beta2"] == {0.95}


def test_the_loss_of_a_step_is_per_counted_token(trainer):
    data = trainer.datums(ROWS)
    results = trainer.forward_backward(data, "cross_entropy", forward_only=True)

    assert trainer.step(data) == pytest.approx(results.loss / sum(item.inputs["weights"].sum() for item in data))


def test_gradients_of_several_calls_are_one_step(trainer):
    data = trainer.datums(ROWS)
    trainer.forward_backward(data[:4], "cross_entropy")
    trainer.forward_backward(data[4:], "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate=1e-2))

    assert len(trainer.log.losses) == 1


def test_a_step_that_makes_infinite_weights_leaves_the_last_good_adapter(trainer):
    steps(trainer, 2)
    good = {name: item.copy() for name, item in trainer.adapter.factors.items()}

    with pytest.raises(TrainingStopped, match="weights that are not finite"):
        trainer.step(trainer.datums(ROWS), learning_rate=1e300)

    assert all(np.array_equal(item, good[name]) for name, item in trainer.adapter.factors.items())
    assert len(trainer.log.losses) == 2


def test_a_loss_that_is_not_finite_leaves_the_last_adapter_whose_loss_was(trainer):
    steps(trainer, 1)
    good = {name: item.copy() for name, item in trainer.adapter.factors.items()}
    trainer.step(trainer.datums(ROWS), learning_rate=1e30)

    with pytest.raises(TrainingStopped):
        trainer.step(trainer.datums(ROWS))

    assert all(np.array_equal(item, good[name]) for name, item in trainer.adapter.factors.items())


def test_training_goes_on_from_a_checkpoint(engine, trainer, tmp_path):
    steps(trainer, 3)
    trainer.save_sampler(tmp_path / "first.safetensors")
    second = EmbeddedTrainer(engine, SPEC, folder=tmp_path)
    second.start_from("first.safetensors")
    steps(second, 1)

    assert second.log.losses[0] < trainer.log.losses[0]
    with pytest.raises(ValueError, match="before the first step"):
        second.start_from("first.safetensors")

    third = EmbeddedTrainer(engine, SPEC, folder=tmp_path)
    third.find_version = {"claims@1": "first.safetensors"}.__getitem__
    third.start_from("claims@1")
    assert third.parent == second.parent


# -- recipes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"recipe": "nothing:here"},
            "has recipe 'nothing:here', which cannot be imported (ModuleNotFoundError: No module",
        ),
        (
            {"recipe": "json:here"},
            "has recipe 'json:here', which cannot be imported (AttributeError: module 'json' has no",
        ),
        ({"recipe": "json"}, "has recipe 'json', which cannot be imported"),
        ({"recipe": 7}, "has recipe 7, which cannot be imported"),
        ({"recipe": "json:__doc__"}, "has recipe 'json:__doc__', which is not a plain function"),
        ({"lora": {"rnak": 4}}, "has 'lora.rnak', which no LoRA adapter has: did you mean 'lora.rank'? lora takes"),
        ({"lora": 4}, "has lora = 4: write { rank = 8 }; lora takes rank, train_attn, train_mlp, train_unembed"),
        ({"lora": {"rank": "4"}}, "has rank = '4': write rank and seed as whole numbers"),
        ({"lora": {"rank": 0}}, "cannot be trained: the rank must be 1 to 512, not 0"),
        ({"lora": {"rank": 513}}, "cannot be trained: the rank must be 1 to 512, not 513"),
        ({"seed": -1}, "cannot be trained: the seed must be 0 or more, not -1"),
        ({"hyperparameters": 4}, "has hyperparameters = 4: write { steps = 90 }"),
        (
            {"recipe": "textwrap:indent", "hyperparameters": {"prefx": 4}},
            "has 'hyperparameters.prefx', but recipe 'textwrap:indent' has no argument 'prefx': use prefix or predicate",
        ),
        ({"seed": True}, "has seed = True: write rank and seed as whole numbers"),
        *(
            ({"at": at}, f"has at = {at!r}: write the number of a step, such as at = 30")
            for at in (0, -3, "30", True, 2.0)
        ),
        *(
            ({"save_every": value}, f"has save_every = {value!r}: write a number of steps, 0 for never")
            for value in (-1, 2.5, True, "often")
        ),
        ({"on_lost_training": "retry"}, "has on_lost_training = 'retry': write 'resume' or 'fail'"),
        (
            {"on_lost_training": "resume", "save_every": 0},
            "has on_lost_training = 'resume' and save_every = 0, which leaves no state",
        ),
    ],
)
def test_invalid_recipes_are_refused(engine, settings, sentence):
    with pytest.raises(SpecError) as caught:
        find_recipe("v2", EmbeddedBase(engine, "tiny"), {"recipe": "json:dumps", **settings})

    assert str(caught.value).startswith(f"adapter 'v2' {sentence}")


# -- trained adapters ---------------------------------------------------------------------------------------------


def test_an_adapter_is_trained_once_and_then_found(engine, tmp_path):
    recipe = make_recipe(engine, lambda trainer: steps(trainer, 3))

    first, now = train_recipe(recipe, tmp_path)
    second, again = train_recipe(recipe, tmp_path, begin=lambda: pytest.fail("it is there"))

    assert (now, again) == (True, False)
    assert second == first
    assert find_trained(recipe, tmp_path) == first
    assert sorted(item.name for item in first.path.iterdir()) == ["adapter.safetensors", "lineage.json"]
    assert not list(tmp_path.glob(".training-*"))


def test_the_lineage_records_base_recipe_and_results(engine, tmp_path):
    recipe = make_recipe(engine, lambda trainer: steps(trainer, 20), seed=5)

    lineage = train_recipe(recipe, tmp_path)[0].lineage

    origin = (lineage.base_sha256, lineage.recipe, lineage.recipe_sha256)
    assert origin == (engine.base_sha256, "recipes:train", recipe.sha256)
    assert (lineage.lora["rank"], lineage.seed, lineage.hyperparameters["loss"]) == (4, 5, ["cross_entropy"])
    assert {
        lineage.result.training_steps,
        *map(len, (lineage.losses, lineage.gradient_norms, lineage.learning_rates)),
    } == {20}
    assert lineage.result.first_loss == lineage.losses[0]
    assert lineage.result.final_loss == pytest.approx(sum(lineage.losses[-2:]) / 2)
    assert lineage.result.loss_reduction == pytest.approx(1 - lineage.result.final_loss / lineage.losses[0])
    assert lineage.seconds > 0
    assert from_plain(Lineage, json.loads(json.dumps(to_plain(lineage)))) == lineage


def test_hyperparameters_are_keywords_of_the_recipe_and_part_of_key_and_lineage(engine, tmp_path):
    def recipe(trainer, count=1, rate=1e-2):
        steps(trainer, count, rate)

    plain = make_recipe(engine, recipe)
    longer = replace(plain, hyperparameters={"count": 3, "rate": 3e-3})
    lineage = train_recipe(longer, tmp_path)[0].lineage

    assert (len(lineage.losses), set(lineage.learning_rates)) == (3, {3e-3})
    assert lineage.arguments == {"count": 3, "rate": 3e-3}
    assert plain.key != longer.key
    assert find_trained(plain, tmp_path) is None


def test_a_lineage_names_its_files_its_parents_and_those_declared(engine, tmp_path):
    for name in ("first", "second"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": name, "completion": "five"}) + "\n")

    def first(trainer):
        trainer.step(trainer.datums(tmp_path / "first.jsonl"))

    parent = train_recipe(replace(make_recipe(engine, first), declared={"old.jsonl": "abc"}), tmp_path)[0]

    def second(trainer):
        trainer.start_from(parent.path)
        trainer.step(trainer.datums(tmp_path / "second.jsonl"))

    lineage = train_recipe(make_recipe(engine, second), tmp_path)[0].lineage
    assert (parent.lineage.parent, lineage.parent) == (None, parent.lineage.adapter_sha256)
    of_first, of_second = (hash_file(tmp_path / f"{name}.jsonl") for name in ("first", "second"))

    assert parent.lineage.training_files == {"abc": "old.jsonl", of_first: str(tmp_path / "first.jsonl")}
    assert lineage.inherited == parent.lineage.training_files
    # The weights that it started from are one of its files, but have no rows.
    assert parent.lineage.adapter_sha256 in lineage.data.values()
    assert lineage.training_files == {**lineage.inherited, of_second: str(tmp_path / "second.jsonl")}
    # Also the training behind the parent is known, by its weights, recipe and files.
    assert lineage.ancestors == parent.lineage.ancestry
    assert [each.weights for each in lineage.ancestry] == [lineage.adapter_sha256, lineage.parent]
    assert lineage.ancestry[1].files == parent.lineage.training_files
    assert from_plain(Lineage, json.loads(json.dumps(to_plain(lineage)))) == lineage


@pytest.mark.parametrize("by", ["trainer", "open"])
def test_changed_data_train_again(engine, tmp_path, by):
    path = tmp_path / "train.jsonl"
    path.write_text(f"{json.dumps(ROWS[0])}\n")

    def recipe(trainer):
        rows = path if by == "trainer" else [json.loads(line) for line in path.read_text().splitlines()]
        trainer.step(trainer.datums(rows))

    folder = tmp_path / "adapters"
    first = train_recipe(make_recipe(engine, recipe), folder)[0]
    assert list(first.lineage.data) == [str(path)]  # not below the recipe's own folder, which is that of this test
    path.write_text(f"{json.dumps(ROWS[1])}\n")
    second, now = train_recipe(make_recipe(engine, recipe), folder)
    path.write_text(f"{json.dumps(ROWS[0])}\n")

    assert now
    assert second.path != first.path
    assert find_trained(make_recipe(engine, recipe), folder) == first


@pytest.mark.parametrize("change", ["recipe", "seed", "rank", "base"])
def test_the_key_depends_on_recipe_seed_rank_and_base(engine, tmp_path, change):
    def recipe(trainer):
        steps(trainer, 1)

    def other(trainer):
        steps(trainer, 2)

    changed = {
        "recipe": make_recipe(engine, other),
        "seed": make_recipe(engine, recipe, seed=1),
        "rank": Recipe("v2", "recipes:train", recipe, EmbeddedBase(engine, "tiny"), LoraSpec(rank=5)),
        "base": make_recipe(open_engine(write_tiny_base(tmp_path / "base", seed=1)), recipe),
    }

    assert make_recipe(engine, recipe).key == make_recipe(engine, recipe, name="another").key != changed[change].key


@pytest.mark.parametrize("harm", ["weights", "lineage", "no weights"])
def test_a_damaged_adapter_is_trained_again(engine, tmp_path, harm):
    recipe = make_recipe(engine, lambda trainer: steps(trainer, 1))
    path = train_recipe(recipe, tmp_path)[0].path
    if harm == "no weights":
        (path / "adapter.safetensors").unlink()
    else:
        (path / {"weights": "adapter.safetensors", "lineage": "lineage.json"}[harm]).write_text("{}")

    assert find_trained(recipe, tmp_path) is None
    assert train_recipe(recipe, tmp_path)[1]
    assert find_trained(recipe, tmp_path) is not None


def refusal(recipe: Recipe, folder: Path) -> str:
    with pytest.raises(SpecError) as caught:
        train_recipe(recipe, folder)
    assert find_trained(recipe, folder) is None
    assert not list(folder.glob(".training-*"))
    return str(caught.value)


def test_a_recipe_that_raises(engine, tmp_path):
    def recipe(trainer):
        steps(trainer, 1)
        raise KeyError("prompt")

    message = refusal(make_recipe(engine, recipe), tmp_path)

    line = recipe.__code__.co_firstlineno + 2
    assert message == (
        f"recipe 'recipes:train' of adapter 'v2' raised KeyError: 'prompt' ({Path(__file__).name}, line {line}; "
        "-v shows all of it)"
    )


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (lambda trainer: None, "recipe 'recipes:train' of adapter 'v2' made no step: call trainer.step("),
        (lambda trainer: trainer.datums([]), "recipe 'recipes:train' of adapter 'v2': the rows to train on are empty"),
        (lambda trainer: trainer.datums("gone.jsonl"), "recipe 'recipes:train' of adapter 'v2': training data '"),
        (lambda: None, "recipe 'recipes:train' of adapter 'v2' raised TypeError: "),
        (
            lambda trainer: trainer.step(trainer.datums(ROWS), lr=1e-3),
            "recipe 'recipes:train' of adapter 'v2' raised TypeError: step has no argument 'lr': it takes batch, loss, "
            "learning_rate, beta1, beta2, eps, weight_decay, grad_clip_norm, config, regularizers (",
        ),
        (lambda trainer: exec("raise SystemExit(3)"), "recipe 'recipes:train' of adapter 'v2' raised SystemExit: 3"),
        (
            lambda trainer: trainer.step([]),
            "training of 'v2' stopped at its first step, so nothing is kept: no data to train on: give at least one datum",
        ),
    ],
    ids=["no step", "no rows", "no file", "no argument", "no such setting", "exit", "empty batch"],
)
def test_recipes_that_make_nothing(engine, tmp_path, recipe, sentence):
    assert refusal(make_recipe(engine, recipe), tmp_path).startswith(sentence)


def test_a_training_that_cannot_go_on_keeps_its_last_good_adapter(engine, tmp_path):
    def recipe(trainer):
        steps(trainer, 3)
        steps(trainer, 2, rate=1e300)

    message = refusal(make_recipe(engine, recipe), tmp_path)

    (folder,) = tmp_path.glob("*-stopped")
    assert message == (
        "training of 'v2' stopped at step 4: the step made weights that are not finite (a lower learning rate may help, or "
        "grad_clip_norm); "
        f"the last good adapter is kept in {str(folder)!r}"
    )
    assert engine.sampler(folder) is not None
    assert json.loads((folder / "lineage.json").read_text())["stopped"].startswith(
        "the step made weights that are not finite"
    )


def test_an_interrupt_leaves_no_partial_adapter(engine, tmp_path):
    def recipe(trainer):
        steps(trainer, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(make_recipe(engine, recipe), tmp_path)

    assert [item.suffix for item in tmp_path.iterdir()] == [".lock"]


def test_drafts_of_a_killed_process_are_removed(engine, tmp_path):
    recipe = make_recipe(engine, lambda trainer: steps(trainer, 1))
    (tmp_path / f".training-{recipe.key}-abc").mkdir()

    train_recipe(recipe, tmp_path)

    assert not list(tmp_path.glob(".training-*"))


def test_a_second_process_waits_and_loads_the_adapter(engine, tmp_path):
    begun, waited, go_on = threading.Event(), threading.Event(), threading.Event()

    def recipe(trainer):
        begun.set()
        assert go_on.wait(60)
        steps(trainer, 1)

    results = {}
    slow = threading.Thread(target=lambda: results.update(slow=train_recipe(make_recipe(engine, recipe), tmp_path)))
    slow.start()
    assert begun.wait(60)
    other = threading.Thread(
        target=lambda: results.update(other=train_recipe(make_recipe(engine, recipe), tmp_path, wait=waited.set))
    )
    other.start()
    assert waited.wait(60)
    go_on.set()
    slow.join(20)
    other.join(20)

    assert results["slow"][1] is True
    assert results["other"] == (results["slow"][0], False)


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), file_lock(tmp_path / "a.lock", lambda: None):
        raise RuntimeError

    with file_lock(tmp_path / "a.lock", lambda: pytest.fail("it is not held")):
        pass


def test_files_read_are_those_of_this_thread_and_no_programs(tmp_path):
    for name in ("data.txt", "program.py", "unread.txt"):
        (tmp_path / name).write_text("x")
    with track_reads() as results:
        (tmp_path / "data.txt").read_text()
        (tmp_path / "program.py").read_text()
        (tmp_path / "written.txt").write_text("y")
        other = threading.Thread(target=(tmp_path / "unread.txt").read_text)
        other.start()
        other.join()
    (tmp_path / "unread.txt").read_text()

    assert results == {tmp_path / "data.txt"}


def test_a_failure_that_other_workers_read_has_no_key(engine, tmp_path):
    def train(trainer):
        raise ValueError("no access with planted-in-a-recipe")

    with pytest.raises(SpecError, match="planted"):
        train_recipe(make_recipe(engine, train), tmp_path, session="run1", hide=hider({"planted-in-a-recipe"}))

    [failure] = tmp_path.glob("*.failed")
    assert "no access with (key hidden)" in failure.read_text()
