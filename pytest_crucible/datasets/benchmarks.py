"""Public datasets by name: FEVER, GSM8K, HumanEval, MMLU, and those of the Hugging Face Hub."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.load import as_rows
from pytest_crucible.datasets.release import OfficialFile, Release, Row
from pytest_crucible.records.errors import DatasetError, suggest
from pytest_crucible.records.row_files import read_rows, records

FEVER_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
LETTERS = "ABCD"


@cache
def _official() -> Mapping[str, Any]:
    """Return the table of datasets and their official files."""
    return tomllib.loads(Path(__file__).with_name("official.toml").read_text(encoding="utf-8"))


def _release(name: str, read: Callable[[Sequence[Path]], Iterable[Row]], files: Iterable[OfficialFile] = ()) -> Release:
    """Return the release with this name in the table, of its files or others. Raises KeyError."""
    facts = dict(_official()[name])
    own = [OfficialFile(**file) for file in facts.pop("files", ())]
    return Release(name=name, files=(*own, *files), read=read, **facts)


def fever(name: str) -> Release:
    """Return the release of `fever` (the paper's development set, labels balanced) or `fever-train`. Raises KeyError.

    Claims that sentences of Wikipedia support or refute, or that they give too little information on. Thorne et al. 2018, "FEVER: a
    Large-scale Dataset for Fact Extraction and VERification", NAACL. The evidence is named by page and sentence.
    """
    return _release(name, _fever_claims)


def _fever_claims(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the claims; those whose first piece of evidence is on the same page are a group."""
    for line, row in read_rows(paths[0]):
        missing = {"id", "claim", "label", "evidence"} - set(row)
        if missing or row["label"] not in FEVER_LABELS:
            wrong = f"has no {min(missing)!r}" if missing else f"has the label {row['label']!r}"
            raise DatasetError(
                f"line {line} of {paths[0]} {wrong}: expected id, claim, evidence and one of {FEVER_LABELS}"
            )
        evidence = evidence_of(row)
        yield {
            "id": str(row["id"]),
            "input": row["claim"],
            "expected": row["label"],
            "group": evidence[0][0][0] if evidence else f"claim {row['id']}",
            "evidence": evidence,
        }


def evidence_of(row: Mapping[str, Any]) -> list[list[tuple[str, int]]]:
    """Return the sets of (page, sentence), each of which is sufficient; empty for NOT ENOUGH INFO.

    >>> evidence_of({"evidence": [[[1, 2, "Soul_Food", 0], [1, 3, "Fox_2000", 4]], [[5, None, None, None]]]})
    [[('Soul_Food', 0), ('Fox_2000', 4)]]
    """
    sets = ([(page, line) for _, _, page, line in piece if page is not None] for piece in row["evidence"])
    return [piece for piece in sets if piece]


def gsm8k(name: str) -> Release:
    """Return the release of `gsm8k` (the test set) or `gsm8k-train`. Raises KeyError.

    Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
    """

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        split = "train" if name.endswith("-train") else "test"
        for number, (_, row) in enumerate(read_rows(paths[0])):
            yield {"id": f"gsm8k_{split}_{number}", "input": row["question"], "expected": row["answer"]}

    return _release(name, read)


def humaneval(name: str) -> Release:
    """Return the release of `humaneval`. Raises KeyError for another name.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
    """

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for _, row in read_rows(paths[0]):
            metadata = {name: row[name] for name in ("test", "entry_point")}
            yield {"id": row["task_id"], "input": row["prompt"], "expected": row["canonical_solution"], **metadata}

    return _release(name, read)


def mmlu(name: str) -> Release:
    """Return the release of `mmlu` (the test questions of all subjects), `mmlu:SUBJECT`, or `mmlu-dev` (five each, for examples).

    Hendrycks et al. 2021, "Measuring Massive Multitask Language Understanding", ICLR. Raises DatasetError for an unknown subject.
    """
    of_split, colon, subject = name.partition(":")
    split = {"mmlu": "test", "mmlu-dev": "dev"}[of_split]
    archive = _official()["mmlu-archive"]
    subjects: list[str] = archive["subjects"].split()
    if colon and subject not in subjects:
        hint = suggest(subject, subjects, otherwise="one is 'astronomy'")
        raise DatasetError(f"MMLU has no subject {subject!r}: {hint}")
    members = {f"mmlu/{each}": f"data/{each}" for part in ("test", "dev") for each in _mmlu_files(part, subjects)}
    chosen = [subject] if colon else subjects
    files = [
        OfficialFile(name=f"mmlu/{each}", url=archive["url"], sha256=archive["sha256"], members=members)
        for each in _mmlu_files(split, chosen)
    ]

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for subject_of_file, path in zip(chosen, paths, strict=True):
            yield from _mmlu_questions(path, subject_of_file, split)

    release = _release(of_split, read, files)
    return replace(release, name=name, samples=None) if colon else release


def _mmlu_files(split: str, subjects: Sequence[str]) -> list[str]:
    return [f"{split}/{subject}_{split}.csv" for subject in subjects]


def mmlu_prompt(question: str, choices: Sequence[str]) -> str:
    """Return the question with its lettered choices, one per line, and `Answer:`.

    >>> mmlu_prompt("What is 1 + 1?", ["1", "2", "3", "4"]).splitlines()
    ['What is 1 + 1?', 'A. 1', 'B. 2', 'C. 3', 'D. 4', 'Answer:']
    """
    lettered = (f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=True))
    return "\n".join((question, *lettered, "Answer:"))


def _mmlu_questions(path: Path, subject: str, split: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file without a header: question, four choices, and the letter of the right choice."""
    for number, (line, cells) in enumerate(records(path, csv.excel)):
        if len(cells) != 6 or cells[5] not in tuple(LETTERS):
            raise DatasetError(
                f"line {line} of {path} is not an MMLU question: expected a question, four choices and a letter from A to D"
            )
        question, *choices, letter = cells
        yield {
            "id": f"{subject}-{split}-{number}",
            "input": mmlu_prompt(question, choices),
            "expected": letter,
            "subject": subject,
            "question": question,
            "choices": choices,
        }


# The split may have the package's own slices, such as `train[:100]`.
_HUB_NAME = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:/(?P<configuration>[^/:]+))?:(?P<split>.+)")


def hugging_face(name: str) -> Release:
    """Return the release of `hf://ORG/NAME[/CONFIG]:SPLIT`. Raises DatasetError."""
    match = _HUB_NAME.fullmatch(name)
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
        read=lambda _paths: _hub_rows(name, match["repository"], match["configuration"], match["split"]),
    )


def _hub_rows(name: str, repository: str, configuration: str | None, split: str) -> Iterable[Row]:
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
