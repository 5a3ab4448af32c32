"""Makes the rows of a training file and of its holdout from selected replies and old rows, in the format of a library.

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

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pytest_crucible.datasets.similar import Duplicate, find_duplicates
from pytest_crucible.datasets.training_rows import FileRow, read_row
from pytest_crucible.local_model.tokens import message_text
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import DatasetError, SpecError, describe_type
from pytest_crucible.records.row_files import read_rows
from pytest_crucible.records.serialize import to_plain

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


def _write_trl(row: TrainingRow, **replies: str | None) -> Json:
    """Return replies by their columns: as texts after a text, as messages after messages."""
    is_text = isinstance(row.prompt, str)
    return {
        "prompt": row.prompt,
        **{column: reply or "" if is_text else [_reply(reply)] for column, reply in replies.items()},
    }


def _write_conversation(row: TrainingRow) -> Json:
    return {"messages": [*with_messages(row.prompt), _reply(row.completion)]}


def _write_comparison(row: TrainingRow) -> Json:
    comparison = {
        "prompt_conversation": with_messages(row.prompt),
        "completion_A": [_reply(row.completion)],
        "completion_B": [_reply(row.rejected)],
    }
    return {"comparison": comparison, "label": "A"}


def _write_axolotl_kto(row: TrainingRow) -> Json:
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
    ("trl", "sft"): lambda row: _write_trl(row, completion=row.completion),
    ("trl", "dpo"): lambda row: _write_trl(row, chosen=row.completion, rejected=row.rejected),
    ("trl", "kto"): lambda row: {**_write_trl(row, completion=row.completion), "label": row.label},
    ("openai", "sft"): _write_conversation,
    ("openai", "dpo"): lambda row: {
        "input": {"messages": with_messages(row.prompt)},
        "preferred_output": [_reply(row.completion)],
        "non_preferred_output": [_reply(row.rejected)],
    },
    ("tinker", "sft"): _write_conversation,
    ("tinker", "dpo"): _write_comparison,
    ("axolotl", "sft"): _write_conversation,
    ("axolotl", "dpo"): lambda row: {
        "messages": with_messages(row.prompt),
        "chosen": _reply(row.completion),
        "rejected": _reply(row.rejected),
    },
    ("axolotl", "kto"): _write_axolotl_kto,
}
FORMATS = tuple(dict.fromkeys(name for name, _ in _WRITERS))


def text_of(value: Any) -> str:
    """Return the text of a prompt or reply. Raises TypeError for another value."""
    if isinstance(value, str):
        return value
    messages = [value] if isinstance(value, Mapping) else value
    if not isinstance(messages, list):
        raise TypeError(f"expected a text or messages, not {describe_type(value)}")
    return "\n".join(message_text(message) for message in messages)


Line = tuple[str, Mapping[str, Any]]
"""A line of the file, and its origin."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The form of a training set: what is trained, the file format, and how rows are divided."""

    task: TrainingTask
    format: str
    holdout: float = 0.0
    replay: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class TrainingSet:
    """The lines of the training file and of the holdout."""

    lines: list[Line]
    holdout: list[Line]
    replayed: int
    left_out: Counter[str] = field(default_factory=Counter)


def build_set(rows: Sequence[TrainingRow], shape: Shape, old: Sequence[Line], left_out: Counter[str]) -> TrainingSet:
    """Return the lines of the files. `old` are lines to replay, in the same format. Counts the rows that are left out."""
    fitting = [row for row in rows if fits_format(row, shape.format, shape.task)]
    left_out[f"{shape.format} has no {shape.task} rows of longer conversations"] += len(rows) - len(fitting)
    unique = _alike(drop_duplicates(fitting, left_out))
    groups = held_out_groups(unique, shape.holdout, shape.seed)
    write = find_format(shape.format, shape.task)
    lines = [(json_line(write(row)), row.origin) for row in unique]
    new = [line for row, line in zip(unique, lines, strict=True) if row.group not in groups]
    held_out = [line for row, line in zip(unique, lines, strict=True) if row.group in groups]
    replayed = _replay([*held_out, *new], old, len(new), shape, left_out) if shape.replay else []
    return TrainingSet(spread(new, replayed) if replayed else new, held_out, len(replayed), left_out)


def _alike(rows: list[TrainingRow]) -> list[TrainingRow]:
    """Return rows whose prompts are all texts or all messages: libraries read a column as one type."""
    is_text = all(isinstance(row.prompt, str) for row in rows)
    return rows if is_text else [row._replace(prompt=with_messages(row.prompt)) for row in rows]


def _replay(new: Sequence[Line], old: Sequence[Line], count: int, shape: Shape, left_out: Counter[str]) -> list[Line]:
    """Return old lines for the training file, without those that repeat a new row of it or of the holdout."""
    rows, old_rows = _parse(new), _parse(old)
    if len({isinstance(row.prompt, str) for row in (*rows, *old_rows)}) > 1:
        raise SpecError(
            "the old rows and the new ones differ in their prompts, texts in one and messages in the other: "
            "write the old file again, with prompts of the same type"
        )
    duplicates = find_duplicates([_file_texts(row) for row in (*rows, *old_rows)])[len(rows) :]
    repeats = {position: _why(duplicate) for position, duplicate in enumerate(duplicates) if duplicate is not None}
    for reason in repeats.values():
        left_out[f"replayed row: {reason}"] += 1
    usable = [line for position, line in enumerate(old) if position not in repeats]
    order = sorted(range(len(usable)), key=lambda position: (draw_key(shape.seed, usable[position][0]), position))
    # In their order in the file.
    return [usable[position] for position in sorted(order[: count_replayed(count, shape.replay, len(usable))])]


def _parse(lines: Sequence[Line]) -> list[FileRow]:
    rows = (read_row(json.loads(text)) for text, _ in lines)
    return [row for row in rows if row is not None]


EQUAL, NEAR = "equal to an earlier row", "differs from an earlier row in at most 5 % of the words"


def drop_duplicates(rows: Sequence[TrainingRow], left_out: Counter[str]) -> list[TrainingRow]:
    """Return the rows without those that repeat an earlier one, which are counted."""
    samples: dict[int, set[str]] = {}
    for row in rows:
        if row.template is not None:
            samples.setdefault(row.template, set()).add(row.own)
    shared = {template for template, texts in samples.items() if len(texts) > 1}
    unique = []
    for row, duplicate in zip(rows, find_duplicates([_texts(row, shared) for row in rows]), strict=True):
        if duplicate is None:
            unique.append(row)
        else:
            left_out[_why(duplicate)] += 1
    return unique


def _why(duplicate: Duplicate) -> str:
    return EQUAL if duplicate.is_equal else NEAR


def _texts(row: TrainingRow, shared: set[int]) -> tuple[str, ...]:
    is_template = row.template in shared
    prompt = row.own if is_template else text_of(row.prompt)
    template = str(row.template) if is_template else ""
    return (template, prompt, row.completion, row.rejected or "", str(row.label))


def _file_texts(row: FileRow) -> tuple[str, ...]:
    rejected = "" if row.rejected is None else text_of(row.rejected)
    return (text_of(row.prompt), text_of(row.completion), rejected, str(row.label))


Item = TypeVar("Item")


def held_out_groups(rows: Sequence[TrainingRow], share: float, seed: int) -> frozenset[str]:
    """Return the groups of the holdout: their share is rounded, and neither file is left without a group.

    The draw depends on the groups' names alone, so that a group stays in its file when other rows change.
    """
    groups = list(dict.fromkeys(row.group for row in rows))
    count = round(share * len(groups))
    if share > 0 and len(groups) > 1:
        count = min(max(count, 1), len(groups) - 1)
    return frozenset(sorted(groups, key=lambda group: draw_key(seed, group))[:count])


def count_replayed(rows: int, share: float, available: int) -> int:
    """Return the number of old rows that makes the share of a file with `rows` new ones.

    >>> count_replayed(80, 0.2, available=1000), count_replayed(80, 0.2, available=5)
    (20, 5)
    """
    return min(round(rows * share / (1 - share)), available)


def spread(new: Sequence[Item], old: Sequence[Item]) -> list[Item]:
    """Return the new rows with the old ones among them, at equal distances.

    >>> spread([1, 2, 3, 4], [-1, -2])
    [1, -1, 2, 3, -2, 4]
    """
    places = [((number + 0.5) / len(new), 0, row) for number, row in enumerate(new)]
    places += [((number + 0.5) / len(old), 1, row) for number, row in enumerate(old)]
    return [row for _, _, row in sorted(places, key=lambda place: place[:2])]


def draw_key(seed: int, text: str) -> str:
    """Return a text that orders rows by chance, equally on every machine."""
    return hashlib.sha256(f"{seed}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
CARD, ORIGINS, HOLDOUT = ".card.json", ".origins.jsonl", ".holdout"


def origin_lines(origins: Sequence[Mapping[str, Any]]) -> str:
    """Return the origins as JSON Lines: the first is that of the file's first line."""
    return "".join(f"{json_line({'line': line, **origin})}\n" for line, origin in enumerate(origins, start=1))


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, with lone surrogates escaped, which UTF-8 cannot encode."""
    text = _ENCODE(row)
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


def describe_file(text: str, origins: Sequence[Mapping[str, Any]], origins_text: str) -> dict[str, Any]:
    """Return a card's facts about one file: rows, samples and hashes. Without a date, equal files have equal cards."""
    samples = {(origin.get("experiment"), origin.get("sample")) for origin in origins if "sample" in origin}
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "origins_sha256": hashlib.sha256(origins_text.encode()).hexdigest(),
        "rows": len(origins),
        "samples": len(samples),
        "gate_rows": sum(bool(origin.get("gate")) for origin in origins),
    }


def card_text(card: Mapping[str, Any]) -> str:
    return json.dumps(to_plain(card), indent=1, ensure_ascii=False) + "\n"


_EXAMPLE = TrainingRow("", None, "", "", "", True, "", {})


def read_old_rows(path: Path, sha256: str, name: str, task: TrainingTask, origins: Sequence[str]) -> list[Line]:
    """Return the lines of an old training file with their origins. `origins` are JSON Lines where the store knows the file.

    Raises DatasetError for a row of another format.
    """
    expected, lines = set(find_format(name, task)(_EXAMPLE)), list[Line]()
    for number, row in read_rows(path, what="training data"):
        if set(row) != expected or not _is_readable(row):
            raise DatasetError(
                f"line {number} of {path} has {', '.join(sorted(row)) or 'nothing'}, and a {task} row of --format {name} has "
                f"{', '.join(sorted(expected))}: replay a file of the same format"
            )
        origin = json.loads(origins[number - 1]) if number <= len(origins) else {}
        lines.append((json_line(row), {**origin, "file": path.name, "file_sha256": sha256, "line_of_file": number}))
    return lines


def prompts_of(lines: Sequence[Line]) -> list[str]:
    return [text_of(row.prompt) for row in _parse(lines)]


def _is_readable(row: Mapping[str, Any]) -> bool:
    read = read_row(row)
    try:
        return read is not None and bool(_file_texts(read))
    except TypeError:
        return False
