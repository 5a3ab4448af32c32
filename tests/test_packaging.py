"""The package's metadata and its release: links that lead somewhere, floors above known faults, pinned actions and tools."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USES = re.compile(r"uses: (\S+)(?: # (.+))?")
# The first versions without a published fault that matters here.
FLOORS = {
    "jinja2": (3, 1, 6),  # CVE-2025-27516
    "torch": (2, 6),  # CVE-2025-32434
    "sentence-transformers": (6,),  # imports what a local modules.json names
    "scikit-learn": (1, 5),  # CVE-2024-5206
    "h2": (4, 3),  # CVE-2025-57804
    "h11": (0, 16),  # CVE-2025-43859
    "starlette": (0, 49, 1),  # CVE-2025-62727: the header Range of files
    "mkdocs-material": (9, 5, 32),  # script in a deep link of the search
}


def long_description() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    return text


def test_every_link_of_the_long_description_is_absolute_and_its_file_exists():
    links = re.findall(r"\]\(([^)]+)\)", long_description())
    relative = [link for link in links if not link.startswith(("https://", "http://", "#"))]
    own = [
        link.partition("/main/")[2].partition("#")[0]
        for link in links
        if "pytest-crucible/pytest-crucible" in link and "/main/" in link
    ]

    assert relative == []
    assert len(own) > 30
    assert [name for name in own if not (ROOT / name).exists()] == []


def test_pictures_of_the_long_description_are_files_and_not_pages():
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", long_description())

    assert pictures
    assert all(link.startswith("https://raw.githubusercontent.com/") for link in pictures)


def test_the_project_has_addresses():
    urls = PROJECT["project"]["urls"]

    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} <= set(urls)
    assert all(url.startswith("https://") for url in urls.values())
    files = [url.partition("/blob/main/")[2] for url in urls.values() if "/blob/main/" in url]
    assert all((ROOT / name).is_file() for name in files)


@pytest.mark.parametrize("name", FLOORS)
def test_no_requirement_allows_a_version_with_a_published_fault(name):
    project = PROJECT["project"]
    all_requirements = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    of_package = [r for r in all_requirements if re.match(rf"{re.escape(name)}(\[|[<>=~!;]|$)", r)]

    assert of_package
    for requirement in of_package:
        floor = re.search(r">=([\d.]+)", requirement)
        assert floor is not None, requirement
        assert tuple(map(int, floor[1].split("."))) >= FLOORS[name], requirement


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_say_their_version(workflow):
    uses = USES.findall(workflow.read_text(encoding="utf-8"))
    actions = [(name, version) for name, version in uses if not name.startswith(("./", "docker://"))]

    assert uses
    for name, version in actions:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name), name
        assert re.fullmatch(r"v\d+\.\d+\.\d+", version), (name, version)


def test_a_release_is_tested_before_it_is_built_and_built_with_locked_tools():
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    tools = (ROOT / ".github" / "release-tools.txt").read_text(encoding="utf-8")
    requirements = re.findall(
        r"^([\w.-]+)==\S+ \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", tools, re.MULTILINE
    )

    assert re.search(r"tests:\n    uses: ./.github/workflows/tests.yml\n  build:\n    needs: tests", release)
    assert "--require-hashes" in release
    assert "--no-isolation" in release
    assert "attest-build-provenance" in release
    assert {"build", "twine", "hatchling", "hatch-fancy-pypi-readme"} <= {name for name, _ in requirements}
    assert len(requirements) == len(re.findall(r"^[\w.-]+==", tools, re.MULTILINE))
