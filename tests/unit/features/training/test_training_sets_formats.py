"""File formats of training sets, as the libraries read them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.features.training.set_formats import TrainingRow, find_format, read_row, text_of
from pytest_crucible.features.training.set_rows import Shape, build_set, held_out_groups, json_line, read_old_rows
from pytest_crucible.records.errors import DatasetError, SpecError

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


def numbered(count: int, **facts: Any) -> list[TrainingRow]:
    return [row(f"What is {n}?", completion=f"{n}", group=f"g{n // 2}", **facts) for n in range(count)]


def test_the_holdout_takes_whole_groups_and_depends_on_the_seed_alone():
    rows = numbered(20)
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
    built = build(numbered(20), old, replay=0.2)

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
        build(numbered(4), [(json_line({"prompt": [USER], "completion": [YES]}), {})], replay=0.5)


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
