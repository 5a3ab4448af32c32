"""MMLU: multiple-choice questions in 57 subjects (MIT licence).

Hendrycks et al. 2021, "Measuring Massive Multitask Language Understanding", ICLR, https://github.com/hendrycks/test
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.delimited import records
from pytest_crucible.datasets.release import OfficialFile, Release
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.suggestions import suggest

_REVISION = "c30699e8356da336a370243923dbaf21066bb9fe"
_URL = f"https://huggingface.co/datasets/cais/mmlu/resolve/{_REVISION}/data.tar"
_SHA256 = "bec563ba4bac1d6aaf04141cd7d1605d7a5ca833e38f994051e818489592989b"
_NAMES = """
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
SUBJECTS = tuple(_NAMES.split())
LETTERS = "ABCD"
_SPLITS = {"mmlu": ("test", 14_042), "mmlu-dev": ("dev", 285)}
_MEMBERS = {
    f"mmlu/{split}/{subject}_{split}.csv": f"data/{split}/{subject}_{split}.csv"
    for split, _ in _SPLITS.values()
    for subject in SUBJECTS
}


def release(name: str) -> Release:
    """Return the release of `mmlu` (the test questions of all subjects), `mmlu:SUBJECT`, or `mmlu-dev` (five each, for examples).

    Raises DatasetError for an unknown subject.
    """
    of_split, colon, subject = name.partition(":")
    split, samples = _SPLITS[of_split]
    subjects = [_subject(subject)] if colon else SUBJECTS

    def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for subject_of_file, path in zip(subjects, paths, strict=True):
            yield from _questions(path, subject_of_file, split)

    return Release(
        name=name,
        says="questions with four choices; metadata has subject, question and choices",
        samples=None if colon else samples,
        licence="MIT",
        source="https://github.com/hendrycks/test",
        files=tuple(
            OfficialFile(name=f"mmlu/{split}/{name_of_file}_{split}.csv", url=_URL, sha256=_SHA256, members=_MEMBERS)
            for name_of_file in subjects
        ),
        read=read,
    )


def prompt(question: str, choices: Sequence[str]) -> str:
    """Return the question with its lettered choices, one per line, and `Answer:`.

    >>> prompt("What is 1 + 1?", ["1", "2", "3", "4"]).splitlines()
    ['What is 1 + 1?', 'A. 1', 'B. 2', 'C. 3', 'D. 4', 'Answer:']
    """
    lettered = (f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=True))
    return "\n".join((question, *lettered, "Answer:"))


def _questions(path: Path, subject: str, split: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file without a header: question, four choices, and the letter of the right choice."""
    for number, (line, cells) in enumerate(records(path, csv.excel)):
        if len(cells) != 6 or cells[5] not in tuple(LETTERS):
            raise DatasetError(
                f"line {line} of {path} is not an MMLU question: expected a question, four choices and a letter from A to D"
            )
        question, *choices, letter = cells
        yield {
            "id": f"{subject}-{split}-{number}",
            "input": prompt(question, choices),
            "expected": letter,
            "subject": subject,
            "question": question,
            "choices": choices,
        }


def _subject(given: str) -> str:
    if given not in SUBJECTS:
        hint = suggest(given, SUBJECTS, otherwise="one is 'astronomy'")
        raise DatasetError(f"MMLU has no subject {given!r}: {hint}")
    return given
