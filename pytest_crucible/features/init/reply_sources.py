"""Sources of replies for a first suite: a server's model, the replies in a results file, or the embedded model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pytest_crucible.backends.openai.settings import DEFAULT_KEY
from pytest_crucible.importers.results import ImportedFile, Results, Row
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

# The embedded model continues a text, and would write further questions after the answer.
SHORT = {"max_tokens": 6, "stop": "\n"}
TERSE = "Reply with the answer alone, in as few words as possible."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySource:
    """The adapters of a first suite, and the files that they need."""

    adapters: Mapping[str, Mapping[str, Any]]
    """Their tables in crucible.toml, by name: the baseline first."""
    about: str
    """A comment above them."""
    key: str = ""
    """The environment variable of a key, which CI needs as a secret."""
    rows: Sequence[Mapping[str, Any]] = ()
    """The samples that it answers; empty for a model, which answers any."""
    replies: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Path -> rows of a file of recorded replies."""


def embedded_source() -> ReplySource:
    """Return the embedded model at two temperatures, which needs no server and no key."""
    table = {"backend": "local"}
    return ReplySource(
        adapters={
            "v1": {**table, "parameters": {"temperature": 2.0, **SHORT}},
            "v2": {**table, "parameters": {"temperature": 0.0, **SHORT}},
        },
        about='The model inside the package at two temperatures: replace it by a server, uri = "openai+http://HOST/v1#MODEL".',
    )


def server_source(server: Adapter) -> ReplySource:
    """Return a server's model as it is, and with a system prompt."""
    table = {"backend": "openai", **server.options}
    return ReplySource(
        adapters={"v1": table, "v2": {**table, "system": TERSE}},
        about="One model with two prompts: replace the model, the server or the prompt of v2 by what you want to compare.",
        key=str(server.options.get("api_key_env", DEFAULT_KEY)),
    )


def results_source(files: Sequence[ImportedFile]) -> ReplySource:
    """Return the replies of each arm in a results file, with the samples that they answer. Raises SpecError without texts."""
    arms = [results for file in files for results in file.results]
    task = arms[0].task
    of_task = [results for results in arms if results.task == task]
    # The first arm of a file is its candidate, here as in `crucible compare`. Two files may have arms of one name.
    rows = {f"v{number}": _usable_rows(results) for number, results in enumerate(reversed(of_task), 1)}
    if not all(rows.values()):
        raise SpecError(
            f"{files[0].path} has no inputs with replies in it: `crucible compare {files[0].path} OTHER` compares its scores"
        )
    samples = {row.sample: _sample(row) for of_arm in reversed(rows.values()) for row in of_arm}
    named = ", ".join(f"{name} is {results.arm}" for name, results in zip(rows, reversed(of_task), strict=True))
    return ReplySource(
        adapters={name: {"backend": "recorded", "path": f"replies/{name}.jsonl"} for name in rows},
        about=f"The first reply to each sample in {files[0].origin}: {named}.",
        rows=list(samples.values()),
        replies={f"replies/{name}.jsonl": list(map(_reply, of_arm)) for name, of_arm in rows.items()},
    )


def _usable_rows(results: Results) -> list[Row]:
    return [row for row in results.rows if row.reply is not None and row.repeat == 0 and _input(row) is not None]


def _input(row: Row) -> Any:
    """Return what a model was sent: the stored prompt, or else an input that is a text or a list of messages."""
    if row.prompt is not None:
        return row.prompt
    return row.input if isinstance(row.input, str | list) else None


def _sample(row: Row) -> dict[str, Any]:
    optional = {"expected": row.expected, "group": row.group}
    return {"id": row.sample, "input": _input(row)} | {
        name: value for name, value in optional.items() if value is not None
    }


def _reply(row: Row) -> dict[str, Any]:
    assert row.reply is not None
    return {"sample_id": row.sample, "text": row.reply.text, "finish": row.reply.finish}
