"""The file formats of training sets, one row at a time.

| format | sft | dpo | kto |
|---|---|---|---|
| trl | prompt, completion | prompt, chosen, rejected | prompt, completion, label |
| openai | messages | input, preferred_output, non_preferred_output | - |
| tinker | messages | comparison, label | - |
| axolotl | messages | messages, chosen, rejected | system, prompt, completion, label |

https://huggingface.co/docs/trl/dataset_formats; https://platform.openai.com/docs/guides/direct-preference-optimization;
`FromConversationFileBuilder` and `ComparisonBuilderFromJsonl` of tinker-cookbook; https://docs.axolotl.ai/docs/rlhf.html
(`chat_template`, `chat_template.default` and `chatml.ultra`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pytest_crucible.local_model.tokens import message_text
from pytest_crucible.records.errors import SpecError, describe_type

TrainingTask = Literal["sft", "dpo", "kto"]
TASKS: tuple[TrainingTask, ...] = ("sft", "dpo", "kto")


class TrainingRow(NamedTuple):
    """One row of a training set, before it is written in a format."""

    prompt: Any
    """A text or messages."""
    template: int | None
    own: str
    completion: str
    """The reply to learn; of a preference, the chosen one."""
    rejected: str | None
    """The rejected reply of a preference."""
    label: bool | None
    """Whether the reply passed, in a KTO row."""
    group: str
    """Rows of one group are never divided between a file and its holdout."""
    origin: Mapping[str, Any]
    """Run, experiment, arm, sample, variant and repeat."""


Json = dict[str, Any]
WriteRow = Callable[[TrainingRow], Json]


def find_format(name: str, task: TrainingTask) -> WriteRow:
    """Return the function that writes rows of a task in a format. Raises SpecError if the format has no such rows."""
    if (name, task) not in _WRITERS:
        able = [other for other, other_task in _WRITERS if other_task == task]
        raise SpecError(f"{name} has no {task.upper()} format: use --format {able[0]}")
    return _WRITERS[name, task]


def with_messages(prompt: Any) -> list[Json]:
    """Return a prompt as messages: a text is one of the user."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def _reply(text: str | None) -> Json:
    return {"role": "assistant", "content": text or ""}


def _trl_text(row: TrainingRow) -> Callable[[str | None], Any]:
    """Return how a reply is written: as a text after a text, as a message after messages."""
    return (lambda text: text or "") if isinstance(row.prompt, str) else (lambda text: [_reply(text)])


def _trl_sft(row: TrainingRow) -> Json:
    return {"prompt": row.prompt, "completion": _trl_text(row)(row.completion)}


def _trl_dpo(row: TrainingRow) -> Json:
    write = _trl_text(row)
    return {"prompt": row.prompt, "chosen": write(row.completion), "rejected": write(row.rejected)}


def _trl_kto(row: TrainingRow) -> Json:
    return {**_trl_sft(row), "label": row.label}


def _conversation(row: TrainingRow) -> Json:
    return {"messages": [*with_messages(row.prompt), _reply(row.completion)]}


def _openai_dpo(row: TrainingRow) -> Json:
    return {
        "input": {"messages": with_messages(row.prompt)},
        "preferred_output": [_reply(row.completion)],
        "non_preferred_output": [_reply(row.rejected)],
    }


def _tinker_dpo(row: TrainingRow) -> Json:
    comparison = {
        "prompt_conversation": with_messages(row.prompt),
        "completion_A": [_reply(row.completion)],
        "completion_B": [_reply(row.rejected)],
    }
    return {"comparison": comparison, "label": "A"}


def _axolotl_dpo(row: TrainingRow) -> Json:
    return {
        "messages": with_messages(row.prompt),
        "chosen": _reply(row.completion),
        "rejected": _reply(row.rejected),
    }


def _axolotl_kto(row: TrainingRow) -> Json:
    system, prompt = split_system(row.prompt) or ("", row.prompt)
    return {"system": system, "prompt": prompt, "completion": row.completion, "label": row.label}


def split_system(prompt: Any) -> tuple[str, str] | None:
    """Return system prompt and question of a prompt that has nothing else; None for longer conversations."""
    messages = with_messages(prompt)
    roles = tuple(message["role"] for message in messages)
    texts = [message["content"] for message in messages]
    if not all(isinstance(text, str) for text in texts):
        return None
    return {("user",): ("", texts[-1]), ("system", "user"): (texts[0], texts[-1])}.get(roles)


def fits_format(row: TrainingRow, name: str, task: TrainingTask) -> bool:
    """Return whether a format can hold a row: Axolotl's KTO rows have one question, and at most a system prompt."""
    return (name, task) != ("axolotl", "kto") or split_system(row.prompt) is not None


_WRITERS: Mapping[tuple[str, TrainingTask], WriteRow] = {
    ("trl", "sft"): _trl_sft,
    ("trl", "dpo"): _trl_dpo,
    ("trl", "kto"): _trl_kto,
    ("openai", "sft"): _conversation,
    ("openai", "dpo"): _openai_dpo,
    ("tinker", "sft"): _conversation,
    ("tinker", "dpo"): _tinker_dpo,
    ("axolotl", "sft"): _conversation,
    ("axolotl", "dpo"): _axolotl_dpo,
    ("axolotl", "kto"): _axolotl_kto,
}
FORMATS = tuple(dict.fromkeys(name for name, _ in _WRITERS))


class FileRow(NamedTuple):
    """One row of a file. Prompt and replies are texts or messages, as the file has them."""

    prompt: Any
    completion: Any
    rejected: Any = None
    label: bool | None = None


def read_row(row: Mapping[str, Any]) -> FileRow | None:
    """Return a row of any format that `formats` writes; None for another form."""
    if "input" in row and "preferred_output" in row:
        return FileRow(_messages(row["input"]), row["preferred_output"], row.get("non_preferred_output"))
    if "comparison" in row:
        return _read_comparison(row)
    if "chosen" in row and "rejected" in row:
        return FileRow(row.get("prompt", row.get("messages")), row["chosen"], row["rejected"])
    if "messages" in row and isinstance(row["messages"], list) and row["messages"]:
        return FileRow(row["messages"][:-1], row["messages"][-1:])
    if "prompt" in row and "completion" in row:
        prompt = row["prompt"]
        if row.get("system") and isinstance(prompt, str):
            prompt = [{"role": "system", "content": row["system"]}, {"role": "user", "content": prompt}]
        return FileRow(prompt, row["completion"], None, row.get("label"))
    return None


def text_of(value: Any) -> str:
    """Return the text of a prompt or reply. Raises TypeError for another value."""
    if isinstance(value, str):
        return value
    messages = [value] if isinstance(value, Mapping) else value
    if not isinstance(messages, list):
        raise TypeError(f"expected a text or messages, not {describe_type(value)}")
    return "\n".join(message_text(message) for message in messages)


def _messages(value: Any) -> Any:
    return value.get("messages") if isinstance(value, Mapping) else None


def _read_comparison(row: Mapping[str, Any]) -> FileRow | None:
    comparison = row["comparison"]
    if not isinstance(comparison, Mapping) or row.get("label") not in ("A", "B"):
        return None
    replies = [comparison.get("completion_A"), comparison.get("completion_B")]
    chosen, rejected = replies if row["label"] == "A" else reversed(replies)
    return FileRow(comparison.get("prompt_conversation"), chosen, rejected)
