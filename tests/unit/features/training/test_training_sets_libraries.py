"""The formats, loaded into the libraries that read them. Each test is skipped where its library is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_crucible.features.training.set_formats import TrainingRow, find_format
from pytest_crucible.features.training.set_rows import json_line

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
