"""Public datasets by name: FEVER, GSM8K, HumanEval, MMLU, and those of the Hugging Face Hub."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.load import as_rows
from pytest_crucible.datasets.release import OfficialFile, Release, Row
from pytest_crucible.records.errors import DatasetError, suggest
from pytest_crucible.records.row_files import read_rows, records

_FEVER = {
    "fever": ("paper_dev", 9_999, "41158707810008747946bf23471e82df53e77a513524b9e3ec1c2e674ef5ef8c"),
    "fever-train": ("train", 145_449, "eba7e8f87076753f8494718b9a857827af7bf73e76c9e4b75420207d26e588b6"),
}
FEVER_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


def fever(name: str) -> Release:
    """Return the release of `fever` (the paper's development set, labels balanced) or `fever-train`. Raises KeyError.

    Claims that sentences of Wikipedia support or refute, or that they give too little information on. Thorne et al. 2018, "FEVER: a
    Large-scale Dataset for Fact Extraction and VERification", NAACL. The evidence is named by page and sentence.
    """
    split, samples, sha256 = _FEVER[name]
    file = OfficialFile(
        name=f"fever/{split}.jsonl", url=f"https://fever.ai/download/fever/{split}.jsonl", sha256=sha256
    )
    return Release(
        name=name,
        says=f"claims; the expected answer is one of {', '.join(FEVER_LABELS)}",
        samples=samples,
        licence="CC BY-SA 3.0",
        source="https://fever.ai",
        files=(file,),
        read=_fever_claims,
    )


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


# A fixed commit: the checksums below are those of its files.
_GSM8K_COMMIT = "3101c7d5072418e28b9008a6636bde82a006892c"
_GSM8K_URL = f"https://raw.githubusercontent.com/openai/grade-school-math/{_GSM8K_COMMIT}/grade_school_math/data"
_GSM8K = {
    "gsm8k": ("test", 1319, "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"),
    "gsm8k-train": ("train", 7473, "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465"),
}


def gsm8k(name: str) -> Release:
    """Return the release of `gsm8k` (the test set) or `gsm8k-train`. Raises KeyError.

    Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
    """
    split, samples, sha256 = _GSM8K[name]

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for number, (_, row) in enumerate(read_rows(paths[0])):
            yield {"id": f"gsm8k_{split}_{number}", "input": row["question"], "expected": row["answer"]}

    return Release(
        name=name,
        says="grade-school word problems; the expected answer ends in a number",
        samples=samples,
        licence="MIT",
        source="https://github.com/openai/grade-school-math",
        files=(OfficialFile(name=f"gsm8k/{split}.jsonl", url=f"{_GSM8K_URL}/{split}.jsonl", sha256=sha256),),
        read=read,
    )


# A fixed commit: the checksum below is that of its file.
_HUMANEVAL_COMMIT = "6d43fb980f9fee3c892a914eda09951f772ad10d"
_HUMANEVAL_FILE = OfficialFile(
    name="humaneval/HumanEval.jsonl.gz",
    url=f"https://raw.githubusercontent.com/openai/human-eval/{_HUMANEVAL_COMMIT}/data/HumanEval.jsonl.gz",
    sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
)


def humaneval(name: str) -> Release:
    """Return the release of `humaneval`. Raises KeyError for another name.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
    """
    if name != "humaneval":
        raise KeyError(name)

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for _, row in read_rows(paths[0]):
            metadata = {name: row[name] for name in ("test", "entry_point")}
            yield {"id": row["task_id"], "input": row["prompt"], "expected": row["canonical_solution"], **metadata}

    return Release(
        name=name,
        says="Python functions to write; `humaneval_pass` runs the tests",
        samples=164,
        licence="MIT",
        source="https://github.com/openai/human-eval",
        files=(_HUMANEVAL_FILE,),
        read=read,
    )


_MMLU_REVISION = "c30699e8356da336a370243923dbaf21066bb9fe"
_MMLU_URL = f"https://huggingface.co/datasets/cais/mmlu/resolve/{_MMLU_REVISION}/data.tar"
_MMLU_SHA256 = "bec563ba4bac1d6aaf04141cd7d1605d7a5ca833e38f994051e818489592989b"
_MMLU_SUBJECTS = """
abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology college_chemistry
college_computer_science college_mathematics college_medicine college_physics computer_security conceptual_physics
econometrics electrical_engineering elementary_mathematics formal_logic global_facts high_school_biology
high_school_chemistry high_school_computer_science high_school_european_history high_school_geography
high_school_government_and_politics high_school_macroeconomics high_school_mathematics high_school_microeconomics
high_school_physics high_school_psychology high_school_statistics high_school_us_history high_school_world_history
human_aging human_sexuality international_law jurisprudence logical_fallacies machine_learning management marketing
medical_genetics miscellaneous moral_disputes moral_scenarios nutrition philosophy prehistory professional_accounting
professional_law professional_medicine professional_psychology public_relations security_studies sociology
us_foreign_policy virology world_religions
"""
SUBJECTS = tuple(_MMLU_SUBJECTS.split())
LETTERS = "ABCD"
_MMLU = {"mmlu": ("test", 14_042), "mmlu-dev": ("dev", 285)}
_MMLU_MEMBERS = {
    f"mmlu/{split}/{subject}_{split}.csv": f"data/{split}/{subject}_{split}.csv"
    for split, _ in _MMLU.values()
    for subject in SUBJECTS
}


def mmlu(name: str) -> Release:
    """Return the release of `mmlu` (the test questions of all subjects), `mmlu:SUBJECT`, or `mmlu-dev` (five each, for examples).

    Hendrycks et al. 2021, "Measuring Massive Multitask Language Understanding", ICLR. Raises DatasetError for an unknown subject.
    """
    of_split, colon, subject = name.partition(":")
    split, samples = _MMLU[of_split]
    if colon and subject not in SUBJECTS:
        hint = suggest(subject, SUBJECTS, otherwise="one is 'astronomy'")
        raise DatasetError(f"MMLU has no subject {subject!r}: {hint}")
    subjects = [subject] if colon else SUBJECTS
    archive: dict[str, Any] = {"url": _MMLU_URL, "sha256": _MMLU_SHA256, "members": _MMLU_MEMBERS}

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for subject_of_file, path in zip(subjects, paths, strict=True):
            yield from _mmlu_questions(path, subject_of_file, split)

    return Release(
        name=name,
        says="questions with four choices; metadata has subject, question and choices",
        samples=None if colon else samples,
        licence="MIT",
        source="https://github.com/hendrycks/test",
        files=tuple(OfficialFile(name=f"mmlu/{split}/{each}_{split}.csv", **archive) for each in subjects),
        read=read,
    )


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
