"""Training sets: which replies become rows, and the file formats, as the libraries read them."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.datasets.training_rows import read_row
from pytest_crucible.features.training.set_attempts import Attempt, AttemptSource, SampleFacts
from pytest_crucible.features.training.set_rows import (
    Shape,
    TrainingRow,
    build_set,
    drop_duplicates,
    find_format,
    held_out_groups,
    json_line,
    read_old_rows,
    text_of,
)
from pytest_crucible.features.training.set_selection import Criterion, Selected, make_criterion, select_rows
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import DatasetError, SpecError

BINARY = make_criterion("right", MetricFacts(name="right", kind="binary"), is_binary=True)
SCORE = make_criterion("score", MetricFacts(name="score", low=0, high=1), is_binary=False)
ERRORS = make_criterion("errors <= 2", MetricFacts(name="errors", direction="lower", low=0), is_binary=False)


def attempt(reply: str | None = "four", value: float | None = 1.0, **facts: Any) -> Attempt:
    position, expected = facts.pop("position", 0), facts.pop("expected", None)
    sample = SampleFacts("data", position, f"q{position}", facts.pop("group", None), expected, facts.pop("gate", False))
    source = AttemptSource(facts.pop("run", "r1"), "test_x", "v1")
    defaults = {"variant": 0, "repeat": 0, "prompt": f"What is {position}?", "template": None, "own": ""}
    defaults |= {"calls": 1, "state": "answered"}
    return Attempt(source=source, sample=sample, reply=reply, value=value, **{**defaults, **facts})


def select(attempts: list[Attempt], task: Any, criterion: Criterion | None = BINARY, gap: float = 0.0) -> Selected:
    return select_rows(attempts, task, {"test_x": criterion}, gap)


def pairs(selected: Selected) -> list[tuple[str, str | None]]:
    return [(row.completion, row.rejected) for row in selected.rows]


def test_a_gold_answer_is_the_completion_once_a_prompt():
    selected = select([attempt("wrong", 0.0, expected="4"), attempt("4", repeat=1, expected="4")], "sft")

    assert pairs(selected) == [("4", None)]
    assert selected.rows[0].origin["completion"] == "gold"
    assert selected.left_out["the prompt has its gold answer already"] == 1


def test_without_gold_each_passing_reply_is_a_row():
    attempts = [attempt("a"), attempt("b", 0.0, repeat=1), attempt("c", repeat=2), attempt("d", expected=["x"])]
    selected = select(attempts, "sft")

    assert [row.completion for row in selected.rows] == ["a", "c", "d"]
    assert selected.left_out == {"failed, and the sample has no gold answer": 1}


def test_a_preference_has_gold_or_the_best_passing_reply_to_the_same_prompt():
    passed = [attempt("good", 0.6), attempt("better", 0.9, repeat=1), attempt("bad", 0.2, repeat=2)]
    other = [attempt("alone", 0.1, position=1), attempt("gold wins", 0.1, position=2, expected="gold")]
    selected = select([*passed, *other], "dpo", SCORE)

    assert pairs(selected) == [("better", "bad"), ("gold", "gold wins")]
    assert selected.rows[0].origin["chosen"] == {"run": "r1", "variant": 0, "repeat": 1, "score": 0.9}
    assert selected.left_out["failed, and the sample has no chosen reply"] == 1


def test_the_gap_is_in_the_metrics_direction():
    wide = [attempt("many", 7.0), attempt("few", 1.0, repeat=1), attempt("three", 3.0, repeat=2)]
    selected = select(wide, "dpo", ERRORS, gap=3)

    assert pairs(selected) == [("few", "many")]
    assert selected.left_out["closer than the gap of 3"] == 1


def test_lost_replies_are_never_rejected_and_truncated_ones_are():
    attempts = [
        attempt("right"),
        attempt("half an ans", None, state="lost", repeat=1),
        attempt("cut at max_tok", None, state="failed", repeat=2),
        attempt("n/a", None, repeat=3),
        attempt(" ", 0.0, repeat=4),
        attempt("skipped", 0.0, state="skipped", repeat=5),
    ]
    selected = select(attempts, "dpo")

    assert pairs(selected) == [("right", "cut at max_tok")]
    expected = {"lost": 1, "the metric does not apply": 1, "the reply is empty": 1, "skipped": 1}
    assert +selected.left_out == expected


def test_several_calls_and_other_prompts_stay_out_counted():
    selected = select([attempt(calls=2, prompt=None), attempt(prompt=None)], "kto")

    assert selected.rows == []
    assert selected.left_out == {
        "several calls in one sample": 1,
        "the prompt is neither a text nor messages": 1,
    }


def test_kto_rows_have_the_label_of_each_reply():
    selected = select([attempt("a"), attempt("b", 0.0, repeat=1)], "kto")

    assert [(row.completion, row.label) for row in selected.rows] == [("a", True), ("b", False)]


@pytest.mark.parametrize(
    ("on", "facts", "is_binary", "passing", "failing"),
    [
        ("right", {}, True, 1.0, 0.0),
        ("wrong", {"direction": "lower"}, True, 0.0, 1.0),
        ("score", {"low": 0, "high": 1}, False, 0.51, 0.5),
        ("score >= 0.9", {"low": 0, "high": 1}, False, 0.9, 0.89),
        ("errors", {"low": 0, "high": 10, "direction": "lower"}, False, 4.0, 5.0),
    ],
)
def test_replies_pass_by_limit_or_better_half(on, facts, is_binary, passing, failing):
    criterion = make_criterion(on, MetricFacts(name=on.split()[0], **facts), is_binary=is_binary)

    assert (criterion.passes(passing), criterion.passes(failing)) == (True, False)
    assert criterion.gap(passing, failing) > 0
    assert criterion.gap(criterion.best, criterion.worst) > 0


def test_a_score_without_bounds_needs_a_limit():
    with pytest.raises(SpecError, match=r"metric 'length' has scores without declared bounds: .* --on 'length >= 0.5'"):
        make_criterion("length", MetricFacts(name="length"), is_binary=False)
    criterion = make_criterion("length >= 10", MetricFacts(name="length"), is_binary=False)
    # What a failed reply is worth is not known: such a pair keeps no gap.
    attempts = [attempt("long", 12.0), attempt("cut", None, state="failed", repeat=1)]
    assert math.isinf(criterion.worst)
    assert pairs(select(attempts, "dpo", criterion)) == [("long", "cut")]


def test_the_words_of_a_template_are_not_the_samples_own():
    template = "Answer in one word. " * 30
    rows = select(
        [attempt(f"reply {n}", position=n, prompt=template + f"What is {n}?", template=7, own=f"{n}") for n in range(3)]
        + [attempt("reply 0", position=9, prompt=template + "What is 0 !?", template=None)],
        "sft",
    ).rows
    left_out: Counter[str] = Counter()

    assert len(drop_duplicates(rows, left_out)) == 4
    # A template of one sample alone is no template: then nearly all words are equal.
    alone = [rows[0], rows[3]]
    assert len(drop_duplicates(alone, left_out)) == 1
    assert sum(left_out.values()) == 1


SYSTEM, USER = {"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}
YES, NO = {"role": "assistant", "content": "4"}, {"role": "assistant", "content": "5"}


def row(prompt: Any = "2 + 2?", *, completion: str = "4", rejected: str | None = "5", **facts: Any) -> TrainingRow:
    label, group, origin = facts.get("label", True), facts.get("group", "g"), facts.get("origin", {})
    return TrainingRow(prompt, None, "", completion, rejected, label, group, origin)


@pytest.mark.parametrize(
    ("name", "task", "expected"),
    [
        ("trl", "sft", {"prompt": [SYSTEM, USER], "completion": [YES]}),
        ("trl", "dpo", {"prompt": [SYSTEM, USER], "chosen": [YES], "rejected": [NO]}),
        ("trl", "kto", {"prompt": [SYSTEM, USER], "completion": [YES], "label": True}),
        ("openai", "sft", {"messages": [SYSTEM, USER, YES]}),
        (
            *("openai", "dpo"),
            {"input": {"messages": [SYSTEM, USER]}, "preferred_output": [YES], "non_preferred_output": [NO]},
        ),
        ("tinker", "sft", {"messages": [SYSTEM, USER, YES]}),
        (
            *("tinker", "dpo"),
            {
                "comparison": {
                    "prompt_conversation": [SYSTEM, USER],
                    "completion_A": [YES],
                    "completion_B": [NO],
                },
                "label": "A",
            },
        ),
        ("axolotl", "sft", {"messages": [SYSTEM, USER, YES]}),
        ("axolotl", "dpo", {"messages": [SYSTEM, USER], "chosen": YES, "rejected": NO}),
        ("axolotl", "kto", {"system": "Add.", "prompt": "2 + 2?", "completion": "4", "label": True}),
    ],
)
def test_each_format_is_that_of_its_library_and_is_read_back(name, task, expected):
    written = find_format(name, task)(row([SYSTEM, USER]))
    read = read_row(json.loads(json_line(written)))

    assert written == expected
    assert read is not None
    assert (text_of(read.prompt), text_of(read.completion)) == ("Add.\n2 + 2?", "4")
    assert (read.rejected and text_of(read.rejected)) == ("5" if task == "dpo" else None)


def test_a_prompt_that_was_sent_as_text_stays_a_text_for_trl():
    assert find_format("trl", "dpo")(row()) == {"prompt": "2 + 2?", "chosen": "4", "rejected": "5"}


@pytest.mark.parametrize("name", ["openai", "tinker"])
def test_a_format_without_kto_names_one_that_has_it(name):
    with pytest.raises(SpecError, match=f"^{name} has no KTO format: use --format trl$"):
        find_format(name, "kto")


def build(rows: list[TrainingRow], old: Any = (), **settings: Any) -> Any:
    shape = Shape(**{"task": "sft", "format": "trl", **settings})
    return build_set(rows, shape, list(old), Counter())


def make_rows(count: int, **facts: Any) -> list[TrainingRow]:
    return [row(f"What is {n}?", completion=f"{n}", group=f"g{n // 2}", **facts) for n in range(count)]


def test_the_holdout_takes_whole_groups_and_depends_on_the_seed_alone():
    rows = make_rows(20)
    built = build(rows, holdout=0.2)

    assert (len(built.lines), len(built.holdout)) == (16, 4)
    assert build(rows, holdout=0.2) == built
    groups = held_out_groups(rows, 0.2, 0)
    assert {line for line, _ in built.holdout}.isdisjoint(line for line, _ in built.lines)
    assert held_out_groups(rows[::-1], 0.2, 0) == groups != held_out_groups(rows, 0.2, 1)
    assert len(held_out_groups(rows[:4], 0.01, 0)) == 1
    assert not held_out_groups(rows[:1], 0.5, 0)


def test_prompts_of_one_file_are_all_texts_or_all_messages():
    built = build([row("text", completion="a"), row([USER], completion="b")])

    assert [type(json.loads(line)["prompt"]) for line, _ in built.lines] == [list, list]


def test_old_rows_are_mixed_in_and_never_repeat_new_ones(tmp_path):
    path = tmp_path / "old.jsonl"
    old_rows = [{"prompt": f"What is {n}?", "completion": f"{n}"} for n in range(10, 60)]
    path.write_text("".join(json.dumps(old) + "\n" for old in old_rows), encoding="utf-8")
    old = read_old_rows(path, "abc", "trl", "sft", ['{"line": 1, "sample": "q10"}'])
    built = build(make_rows(20), old, replay=0.2)

    assert (len(built.lines), built.replayed) == (25, 5)
    assert built.left_out["replayed row: equal to an earlier row"] == 10
    from_old = [origin for _, origin in built.lines if "file" in origin]
    assert all(origin["file_sha256"] == "abc" and origin["line_of_file"] > 10 for origin in from_old)
    assert old[0][1]["sample"] == "q10"
    # Mixed in, not at the end.
    assert "file" not in built.lines[-1][1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"prompt": "a", "chosen": "b", "rejected": "c"}', "line 1 of .* has chosen, prompt, rejected, and a sft row"),
        ('{"prompt": 3, "completion": "b"}', "line 1 of .* has completion, prompt"),
        ("", "is empty"),
    ],
)
def test_a_file_of_another_format_is_not_replayed(tmp_path, text, expected):
    path = tmp_path / "old.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(DatasetError, match=expected):
        read_old_rows(path, "", "trl", "sft", [])


def test_texts_and_messages_are_not_mixed_by_replay():
    with pytest.raises(SpecError, match="differ in their prompts"):
        build(make_rows(4), [(json_line({"prompt": [USER], "completion": [YES]}), {})], replay=0.5)


def test_axolotl_leaves_out_kto_rows_of_longer_conversations():
    built = build([row([USER, YES, USER]), row([SYSTEM, USER])], task="kto", format="axolotl")

    assert len(built.lines) == 1
    assert built.left_out["axolotl has no kto rows of longer conversations"] == 1


def test_a_lone_surrogate_is_escaped():
    assert json_line({"prompt": "\ud800 ä"}) == '{"prompt": "\\ud800 ä"}'


PROMPTS = (
    [{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}],
    [{"role": "user", "content": "3 + 3?"}],
)


def write(folder: Path, name: str, task, prompts=PROMPTS) -> Path:
    rows = [TrainingRow(prompt, None, "", "4", "5" if task == "dpo" else None, True, "", {}) for prompt in prompts]
    path = folder / f"{name}-{task}.jsonl"
    path.write_text("".join(json_line(find_format(name, task)(row)) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("task", ["sft", "dpo", "kto"])
@pytest.mark.parametrize("prompts", [PROMPTS, ("2 + 2?", "3 + 3?")], ids=["messages", "texts"])
def test_trl(tmp_path, task, prompts):
    data_utils = pytest.importorskip("trl.data_utils")
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_dataset("json", data_files=str(write(tmp_path, "trl", task, prompts)), split="train")

    assert all(data_utils.is_conversational(row) == (prompts is PROMPTS) for row in rows)
    assert rows.num_rows == 2


@pytest.mark.parametrize("task", ["sft", "dpo"])
def test_openai(tmp_path, task):
    chat = pytest.importorskip("openai.types.chat")
    messages = pytest.importorskip("pydantic").TypeAdapter(list[chat.ChatCompletionMessageParam])
    for line in write(tmp_path, "openai", task).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        lists = [row["messages"]] if task == "sft" else [row["input"]["messages"], row["preferred_output"]]
        for each in [*lists, *([row["non_preferred_output"]] if task == "dpo" else [])]:
            messages.validate_python(each)


@pytest.mark.slow
def test_tinker_cookbook(tmp_path):
    preferences = pytest.importorskip("tinker_cookbook.preference.preference_datasets")
    builder = preferences.ComparisonBuilderFromJsonl(train_path=str(write(tmp_path, "tinker", "dpo")))
    rows, _ = builder.get_train_and_test_datasets()
    read = [builder.example_to_labeled_comparison(row) for row in rows]

    assert [each.label for each in read] == ["A", "A"]
    assert read[0].comparison.completion_A[0]["content"] == "4"


def test_tinker_cookbook_reads_conversations(tmp_path):
    data = pytest.importorskip("tinker_cookbook.supervised.data")
    types = pytest.importorskip("tinker_cookbook.supervised.types")
    # The tokenizer would come from a hub; it is loaded with the first batch.
    common = types.ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer="none", renderer_name="role_colon", max_length=None, batch_size=1
    )
    path = str(write(tmp_path, "tinker", "sft"))
    rows, _ = data.FromConversationFileBuilder(file_path=path, common_config=common, shuffle_seed=None)()

    assert len(rows) == 2
    assert [message["role"] for message in rows.hf_dataset[0]["messages"]] == ["system", "user", "assistant"]
