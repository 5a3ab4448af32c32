"""Datasets of the Hugging Face Hub by name, read with its `datasets` package: from the hub, or from the package's cache."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pytest_crucible.datasets.objects import as_rows
from pytest_crucible.datasets.release import Release, Row
from pytest_crucible.records.errors import DatasetError

# The split may have the package's own slices, such as `train[:100]`.
_NAME = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:/(?P<configuration>[^/:]+))?:(?P<split>.+)")


def release(name: str) -> Release:
    """Return the release of `hf://ORG/NAME[/CONFIG]:SPLIT`. Raises DatasetError."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise DatasetError(
            f"dataset {name!r} is not valid: write hf://ORG/NAME:SPLIT, or hf://ORG/NAME/CONFIG:SPLIT, such as "
            "'hf://openai/gsm8k/main:test'"
        )
    return Release(
        name=name,
        says="a dataset of the Hugging Face Hub",
        samples=None,
        licence="see its page",
        source=f"https://huggingface.co/datasets/{match['repository']}",
        files=(),
        read=lambda _paths: _rows(name, match["repository"], match["configuration"], match["split"]),
    )


def _rows(name: str, repository: str, configuration: str | None, split: str) -> Iterable[Row]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise DatasetError(
            f'dataset {name!r} needs the datasets package ({error}): pip install "pytest-crucible[hf]"'
        ) from None
    try:
        dataset: Any = load_dataset(repository, configuration, split=split)
    except OSError as error:
        raise DatasetError(
            f"dataset {name!r} is neither reachable on the Hugging Face Hub nor in the local cache ({_first_line(error)}): "
            "check the name and the connection, or load it once while connected"
        ) from error
    # The reader of the dataset's format may raise anything.
    except Exception as error:
        raise DatasetError(
            f"dataset {name!r} cannot be loaded ({_first_line(error)}): check the configuration and the split"
        ) from error
    return as_rows(dataset)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
