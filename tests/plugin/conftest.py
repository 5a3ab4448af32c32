"""A small eval suite with real files, and ways to run pytest on it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from feature_tests import deselect_tests
from fork_server import INTERPRETER
from openai_server import OpenAIServer
from tiny_base import write_tiny_base

from pytest_crucible.cli import main

QUESTIONS = 20
RIGHT = {"v1": 12, "v2": 16, "v3": 18, "poor": 2}
"""How many questions each adapter answers correctly, from the first one on."""

BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A key of TOML that needs no quotes: tests look for `[adapters.v2]` to add to it."""
ALONE = ("-W", "error", "-p", "no:asyncio", "-p", "no:hypothesispytest")
LEFT_OUT = os.environ.get("CRUCIBLE_LEFT_OUT", "")
"""A feature that all sessions leave out; its own tests are not run."""

TEST_SUMS = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


class Suite:
    """The directory of an eval suite: 20 sums as JSONL, recorded replies of four adapters, and one experiment on them."""

    def __init__(self, pytester: pytest.Pytester, prepared: Path) -> None:
        self.pytester = pytester
        self.prepared = prepared
        self.path = pytester.path
        self.write_rows("questions.jsonl", [question(k) for k in range(QUESTIONS)])
        self.answers = {name: [answer(name, k) for k in range(QUESTIONS)] for name in RIGHT}
        for name, rows in self.answers.items():
            self.write_rows(f"answers/{name}.jsonl", rows)
        self.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in RIGHT})
        # A suite whose gate is collected does not see the environment.
        pytester.makefile(".ini", pytest=f"[pytest]\naddopts = -p no:crucible-{LEFT_OUT}" if LEFT_OUT else "[pytest]")
        self.test(TEST_SUMS, name="test_sums")

    def write_rows(self, name: str, rows: Iterable[Any]) -> Path:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return path

    def adapters(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        lines = []
        for name, table in tables.items():
            lines += [
                f"[adapters.{name if BARE.fullmatch(name) else toml(name)}]",
                *(f"{key} = {toml(value)}" for key, value in table.items()),
            ]
        (self.path / "crucible.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def test(self, source: str, *, name: str = "test_sums") -> None:
        self.pytester.makepyfile(**{name: source})

    def script(self, source: str, *, others: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """`--crucible-adapter=scripted` answers with `answer(request)` of this source, `base` with `base(request)`."""
        self.pytester.makepyfile(scripts=source)
        named = {"scripted": "scripts:answer", "base": "scripts:base"}
        tables = {name: {"backend": "scripted", "script": script} for name, script in named.items()}
        self.adapters({**tables, **(others or {})})

    def prepare_once(self, prepare: Callable[[Suite], object]) -> None:
        """Prepare the directory. Only the first test of a process runs the sessions that it takes; others get a copy."""
        remaining = self.prepared / f"{prepare.__module__}.{prepare.__qualname__}"
        if remaining.exists():
            for path in self.path.iterdir():  # what `prepare` removes must not stay
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(remaining, self.path, dirs_exist_ok=True)
        else:
            prepare(self)
            # Compiled tests name the files that they were compiled from, and those are in the other directory.
            shutil.copytree(self.path, remaining, ignore=shutil.ignore_patterns("__pycache__"))

    def calls(self) -> list[str]:
        """Return the lines that scripts have written, one a call."""
        path = self.path / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    def forget_calls(self) -> None:
        (self.path / "calls.txt").unlink(missing_ok=True)

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process. Warnings are errors, and other plugins out of the way."""
        return self.pytester.runpytest_inprocess(*ALONE, *arguments)

    def run_n2(self, *arguments: str) -> pytest.RunResult:
        return self.run("-n2", *arguments)

    def run_apart(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in a process of its own, which has imported everything already."""
        return self.result_of("pytest", *ALONE, *arguments)

    def command(self, *arguments: str) -> pytest.RunResult:
        """Run `crucible ...` in a process of its own, which has imported everything already."""
        return self.result_of("pytest_crucible", *arguments)

    def result_of(self, module: str, *arguments: str) -> pytest.RunResult:
        return self.pytester.run(sys.executable, "-m", module, *arguments)

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start pytest in a process of its own, which has imported everything already."""
        return subprocess.Popen([sys.executable, "-m", "pytest", *arguments], stdin=subprocess.DEVNULL, **options)

    def run_new(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in a new interpreter."""
        return self.pytester.run(INTERPRETER, "-m", "pytest", *ALONE, *arguments)

    def refuses(self, result: pytest.RunResult, sentence: str) -> None:
        """Exit status 4, one sentence, and no verdict."""
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: {sentence}"])
        assert "Traceback" not in result.stdout.str() + result.stderr.str()
        result.stdout.no_fnmatch_line("*verdict*")

    def cannot_store(self, result: pytest.RunResult, sentence: str, *, errors: int = 1, passed: int = 0) -> None:
        """Exit status 1, one sentence at the setup of each experiment, and no verdict."""
        output = result.stdout.str() + result.stderr.str()
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        counts = result.parseoutcomes()
        assert (counts.get("errors", counts.get("error", 0)), counts.get("passed", 0)) == (errors, passed)
        assert not counts.keys() & {"failed", "xfailed"}
        result.stdout.fnmatch_lines([f"*{sentence}"])
        assert "Traceback" not in output
        assert "INTERNALERROR" not in output
        result.stdout.no_fnmatch_line("*verdict*")
        assert self.calls() == []

    def json(self, *arguments: str, run: Callable[..., pytest.RunResult] | None = None) -> dict[str, Any]:
        """Run, and read the whole run as data."""
        (run or self.run)("--crucible-json=run.json", *arguments)
        document: dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        return document


def toml(value: Any) -> str:
    """TOML has no surrogate pairs, and else writes these values as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def question(k: int) -> dict[str, Any]:
    return {"id": f"q{k:02}", "input": f"{k} + {k}", "expected": str(2 * k)}


def answer(adapter: str, k: int) -> dict[str, Any]:
    return {"sample_id": f"q{k:02}", "text": str(2 * k) if k < RIGHT[adapter] else f"{adapter} gave up on {k}"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of a left-out feature, and with CRUCIBLE_PART=1/3 all but the first test of a third of the files."""
    if LEFT_OUT:
        others = deselect_tests(items, LEFT_OUT, os.environ.get("CRUCIBLE_PART", ""))
        config.hook.pytest_deselected(items=[item for item in items if item not in set(others)])
        items[:] = others


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def suite(
    pytester: pytest.Pytester, compiled: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch, forked_programs: None
) -> Suite:
    # Workers compile what they import once, also where Python leaves no .pyc files behind.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(compiled))
    monkeypatch.setenv("COLUMNS", "160")  # no line is cut short
    if LEFT_OUT:
        monkeypatch.setenv("PYTEST_ADDOPTS", f"-p no:crucible-{LEFT_OUT}")
    return Suite(pytester, prepared)


@pytest.fixture
def crucible(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """A command in the suite's directory: exit status, standard output, standard error."""
    monkeypatch.chdir(suite.path)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def command(crucible: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str]]:
    """A command in the suite's directory: exit status, and all that it prints."""

    def run(*arguments: str) -> tuple[int, str]:
        status, output, errors = crucible(*arguments)
        return status, output + errors

    return run


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base model with random weights."""
    return write_tiny_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(params=["plain", pytest.param("n2", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest, suite: Suite) -> Callable[..., pytest.RunResult]:
    """Runs the suite in one process; on two workers, too, with `-m slow`."""
    return suite.run if request.param == "plain" else suite.run_n2


@pytest.fixture(scope="module")
def scripted_server() -> Iterator[OpenAIServer]:
    with OpenAIServer.start() as server:
        yield server


@pytest.fixture
def server(scripted_server: OpenAIServer) -> OpenAIServer:
    """A server that replies as a script says, for the tests of a file."""
    scripted_server.reset()
    return scripted_server
