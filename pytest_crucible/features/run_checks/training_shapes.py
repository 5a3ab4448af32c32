"""The shapes of the prompts in the files that arms were trained on, recorded when a run is planned."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.opened_arm import find_file, suite_folders, training_files
from pytest_crucible.datasets.training_rows import read_row
from pytest_crucible.features.run_checks.prompt_shapes import (
    TRAINED_SHAPES,
    TrainedShapes,
    prompts_before_answers,
    shape_prompt,
    summarise_shapes,
)
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.row_files import format_of

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import Experiment

MOST_ROWS = 20_000
"""Rows that are read of one file: 0.3 s, and shapes that occur in no more of them are rare."""


def record_training_shapes(collection: ExperimentCollection) -> None:
    """Add the shapes of training prompts to the plan of each experiment whose arms have training files."""
    for nodeid, experiment in collection.experiments.items():
        with collection.gather_errors(nodeid):
            collection.experiments[nodeid] = _with_shapes(experiment, collection.config.rootpath)


def _with_shapes(experiment: Experiment, root: Path) -> Experiment:
    folders, shapes = suite_folders(root, experiment.plan.path), []
    for arm, opened in zip(experiment.plan.arms, experiment.opened_arms, strict=True):
        files = training_files(arm, opened)
        if files:
            shapes.append(read_shapes(arm.name, arm.adapter, files, folders))
    return replace(experiment, plan=TRAINED_SHAPES.on(experiment.plan, tuple(shapes))) if shapes else experiment


def read_shapes(arm: str, adapter: str, files: Mapping[str, str], folders: Sequence[Path]) -> TrainedShapes:
    """Return the shapes of all prompts in the files, SHA-256 -> name, that an arm was trained on."""
    rows: list[Any] = []
    unread = ""
    for sha256, name in files.items():
        path = find_file(name, sha256, folders)
        prompts = list(_read_prompts(path)) if path.is_file() and hash_file(path) == sha256 else []
        rows += prompts
        unread = unread if prompts else name
    sent = (as_sent(part, adapter) for prompt in rows for part in prompts_before_answers(prompt))
    shaped = filter(None, map(shape_prompt, sent))
    return TrainedShapes(arm=arm, rows=len(rows), shapes=summarise_shapes(shaped), unread=unread)


def _read_prompts(path: Path) -> Iterator[Any]:
    """Yield the prompt of each row that has one. A file in another format has none."""
    try:
        for _, row in itertools.islice(format_of(path).read(path), MOST_ROWS):
            read = read_row(row) if isinstance(row, Mapping) else None
            if read is not None and read.prompt:
                yield read.prompt
    except DatasetError:
        return


def as_sent(prompt: Any, adapter: str) -> Any:
    """Return a prompt as the arm's backend sends it: a chat server is sent a text as the message of a user.

    The embedded model's chat template leaves a single message as it is.
    """
    backend = adapter.partition(":")[0]
    if isinstance(prompt, str):
        return (
            [{"role": "user", "content": prompt}]
            if kind_of(Adapter(name="", backend=backend)).sends_messages
            else prompt
        )
    is_single = isinstance(prompt, Sequence) and len(prompt) == 1 and isinstance(prompt[0], Mapping)
    if (
        backend == "local"
        and is_single
        and prompt[0].get("role") == "user"
        and isinstance(prompt[0].get("content"), str)
    ):
        return prompt[0]["content"]
    return prompt
