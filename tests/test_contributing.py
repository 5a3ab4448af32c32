"""CONTRIBUTING.md followed to the letter: its additions are made in a copy of the repository, whose tests then pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("pytest_crucible", "tests", "docs", "example_suites", "pyproject.toml", "README.md", "CHANGELOG.md")
CHECKS = {
    "Add a metric": [
        ("unit/metrics/test_metrics_politeness", ""),
        ("test_public_names", "library"),
        ("test_documentation", "page_of_metrics"),
    ],
    "Add a backend": [("contract/test_backend", "answers")],
    "Add a kind of guard": [("contract/test_guard", "words")],
    "Add a section to the reports": [
        ("unit/sections/test_sections_ties", ""),
        ("test_documentation", "page_of_json"),
    ],
    "Add a statistic for targets and comparisons": [("unit/measures/test_measures_mean_square", "")],
    "Add a data check": [
        ("unit/features/data_checks/test_data_checks_expectations", ""),
        ("test_documentation", "page_of_data_checks"),
    ],
    "Add an importer": [
        ("contract/test_importer", "jury"),
        ("unit/importers/test_importers_harnesses", "jury"),
    ],
    "Add a command": [("plugin/test_licences", ""), ("test_documentation", "page_of_the_command_line")],
    "Add a capability": [("plugin/test_padding", "")],
    "all": [("test_layers", "")],
}
"""Heading of an addition -> the tests that show that it works, as file and part of the name."""
_BLOCK = re.compile(r'^```(?P<language>\w+) title="(?P<path>[^"]+)"\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One titled block of the page: a new file, or a diff of one."""

    language: str
    path: str
    body: str


def additions() -> dict[str, list[Block]]:
    """Return the blocks of the page below each heading that has some."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = re.split(r"^#+ (.+)\n", page, flags=re.MULTILINE)
    blocks = {
        heading: [Block(block["language"], block["path"], block["body"]) for block in _BLOCK.finditer(text)]
        for heading, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    return {heading: block for heading, block in blocks.items() if block}


def apply(block: Block, root: Path) -> None:
    """Write the block's file, or change it; the lines that a diff keeps and takes away stand in it once."""
    path = root / block.path
    if block.language != "diff":
        assert not path.exists(), f"{block.path} exists: a diff changes it"
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.body, encoding="utf-8")
        return
    lines = block.body.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", "-"))
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", "+"))
    text = path.read_text(encoding="utf-8")
    changed = replace_lines(text, before, after, block.path) if before else text + after
    path.unlink()  # it is a link to the repository's own
    path.write_text(changed, encoding="utf-8")


def replace_lines(text: str, before: str, after: str, name: str) -> str:
    count = f"\n{text}".count(f"\n{before}")
    assert count == 1, f"{name} has these lines {count} times, expected once:\n{before}"
    return f"\n{text}".replace(f"\n{before}", f"\n{after}")[1:]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with all additions, by hard links where the file system has them."""
    folder = tmp_path_factory.mktemp("contributing")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, copy_function=link, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            link(ROOT / name, folder / name)
    for blocks in additions().values():
        for block in blocks:
            apply(block, folder)
    return folder


def link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def outcomes(copy: Path) -> dict[str, str]:
    """The outcomes of the copy's tests of all additions, by their ids."""
    checks = [check for checks in CHECKS.values() for check in checks]
    files = sorted({f"tests/{file}.py" for file, _ in checks})
    chosen = " or ".join(" and ".join(filter(None, (Path(file).stem, part))) for file, part in checks)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", chosen, "--junitxml=outcomes.xml"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, *files],
        cwd=copy,
        env=environment | {"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return dict(read_outcomes(copy / "outcomes.xml"))


def read_outcomes(path: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(path).iter("testcase"):
        problem = next((part for part in case if part.tag in ("failure", "error")), None)
        yield f"{case.get('classname')} {case.get('name')}", "" if problem is None else str(problem.text)


def test_each_addition_has_a_check():
    assert [*additions(), "all"] == list(CHECKS)


def test_the_additions_fit_the_files_that_they_change(copy):
    assert (copy / "pytest_crucible" / "builtin.py").read_text() != (
        ROOT / "pytest_crucible" / "builtin.py"
    ).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("addition", CHECKS)
def test_an_addition_works_as_it_is_written(addition, outcomes):
    problems = [
        problem
        for name, problem in outcomes.items()
        if any(f"{Path(file).stem} " in name and part in name for file, part in CHECKS[addition])
    ]

    assert problems
    assert "\n".join(filter(None, problems)) == ""
