"""The documentation is real: its files are written, its Python runs, its commands print what it says they print.

Within one page the blocks share one directory. A block with a title is a file in it; an untitled python block runs there,
all of a page in one namespace (as a doctest where it has prompts); in a console block each line after `$` is a command.
The lines below a command occur in its output in this order, side by side but for a line `...`; `# exit 1` asserts the
exit status. What differs from run to run (ids, times, versions, paths) is not compared. What a page includes from another
one is checked there.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import itertools
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from json_page import page_keys
from test_example_suites import copy_suite
from test_layers import LAYERS

import pytest_crucible.features.judges.judges  # noqa: F401 - what suites run in this process must not import it again
from pytest_crucible import hookspecs, metrics
from pytest_crucible.datasets import checks as data_checks
from pytest_crucible.features import all_features
from pytest_crucible.features.cns3 import plugin as cns3_plugin
from pytest_crucible.features.provenance.kinds import KINDS
from pytest_crucible.options import OPTIONS, Option
from pytest_crucible.plan.targets import ALTERNATIVES
from pytest_crucible.records import LostReason
from pytest_crucible.records.reasoning_forms import FORMS
from pytest_crucible.runs.plugins import commands as commands_of_program
from pytest_crucible.runs.plugins import metrics as named_metrics
from pytest_crucible.session.markers import MARKERS
from pytest_crucible.stats.choose import TABLE
from pytest_crucible.store import schema

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
DATA_SUITE = "example_suites/gsm8k"
"""Needs files that are not in the repository."""
TRAINED_SUITE = "example_suites/claims"
"""Trains two adapters: half a minute."""
LOOP = DOCS / "how-to" / "close-the-loop.md"
"""Its commands run in a suite that lies in a repository of its own, and train two adapters."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"\b(pip install|git clone|tox|mkdocs|(?<!crucible )export|cd|ls)\b")
"""Commands that need the network, an installation or a shell of their own."""
LANGUAGES = {"python", "console", "sql", "toml", "ini", "json", "jsonl", "yaml", "text"}
MOST_COMMANDS = 70
"""Each starts a pytest of its own: a page that wants another one shares, or includes a part of, one that is there."""


@dataclass(frozen=True)
class Block:
    """One fenced block, with the line of its page that it starts on."""

    language: str
    title: str | None
    body: str
    line: int


@dataclass(frozen=True)
class Command:
    """One command of a console block, and what the page says that it does."""

    text: str
    output: tuple[str, ...]
    exit_status: int | None
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        language, _, rest = fence["info"].strip().partition(" ")
        title = _TITLE.search(rest)
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(language, title[1] if title else None, textwrap.dedent(fence["body"]), line)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with the lines below it."""
    matches: list[tuple[str, list[str], int]] = []
    for number, line in enumerate(block.body.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            matches.append((line[2:], [], number))
        else:
            assert matches, f"line {number}: a console block begins with a command"
            matches[-1][1].append(line.rstrip())
    for text, expected_lines, number in matches:
        status = re.fullmatch(r"# exit (\d+)", expected_lines[-1]) if expected_lines else None
        yield Command(
            text, tuple(expected_lines[:-1] if status else expected_lines), int(status[1]) if status else None, number
        )


def has(suite: str, page: Path) -> bool:
    return any(suite in block.body for block in blocks(page) if block.language == "console")


WITH_STATUS = ("tutorial.md", "how-to/ci.md", "how-to/datasets.md", "how-to/own-suite.md")
"""The first pages that people follow: each command that is run shows its exit status."""


@pytest.mark.parametrize("name", WITH_STATUS)
def test_each_command_of_the_first_pages_shows_its_exit_status(name: str) -> None:
    of_page = [command for block in blocks(DOCS / name) if block.language == "console" for command in commands(block)]
    run = [command for command in of_page if not _NOT_RUN.search(command.text)]

    assert run
    assert [command.text for command in run if command.exit_status is None] == []


# -- running a page -----------------------------------------------------------------------------------------------


def _each_page() -> Iterator[Any]:
    """The first pages every day, those that answer one question with `-m slow`: their commands take a minute together."""
    for page in (page for page in PAGES if page != LOOP):
        marks = [pytest.mark.slow] if page.parent.name == "how-to" else []
        yield pytest.param(page, marks=marks, id=page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", list(_each_page()))
def test_the_blocks_of_a_page_are_real(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    namespace: dict[str, Any] = {"__name__": page.stem}
    try:
        for block in blocks(page):
            if DATA_SUITE not in block.body and TRAINED_SUITE not in block.body:
                _run(block, page, tmp_path, namespace, python)
    finally:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.mark.parametrize("page", [page for page in PAGES if has(DATA_SUITE, page)], ids=lambda page: page.name)
def test_the_blocks_that_need_real_answers_are_real(page: Path, tmp_path: Path, python: str) -> None:
    if "CRUCIBLE_DATA" not in os.environ:
        pytest.skip(f"CRUCIBLE_DATA is not set: {DATA_SUITE} needs a directory with its files")
    for block in blocks(page):
        if DATA_SUITE in block.body:
            _run(block, page, tmp_path, {}, python)


@pytest.mark.slow
def test_the_block_that_trains_is_real(tmp_path: Path, python: str) -> None:
    """A small part of this suite is run by tests/test_example_suites.py."""
    [(page, block)] = [(page, block) for page in PAGES for block in blocks(page) if TRAINED_SUITE in block.body]

    _run(block, page, tmp_path, {}, python)


@pytest.mark.slow
def test_the_closed_loop_page_runs_to_its_end(tmp_path: Path, python: str) -> None:
    """Run the page from a clean commit, without a network; a block with a title is a part of a file of the suite."""
    for name in ("claims", "improve"):
        copy_suite(name, tmp_path / "example_suites")
    (tmp_path / ".gitignore").write_text(".crucible/\n__pycache__/\n")
    who = ("-c", "user.name=crucible", "-c", "user.email=crucible@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "the suites")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    suite = tmp_path / "example_suites" / "improve"
    for block in blocks(LOOP):
        if block.title is None:
            _run(block, LOOP, suite, {}, python)
        else:
            assert block.body in (suite / block.title).read_text(encoding="utf-8")


def _run(block: Block, page: Path, folder: Path, namespace: dict[str, Any], python: str) -> None:
    where = f"{page.relative_to(ROOT)}:{block.line}"
    assert block.language in LANGUAGES, f"{where}: a block is one of {sorted(LANGUAGES)}"
    if block.title is not None:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body, encoding="utf-8")
    elif block.language == "python":
        _execute(block, where, namespace)
    elif block.language == "json":
        json.loads(block.body)
    elif block.language == "sql":
        with contextlib.closing(sqlite3.connect(folder / ".crucible" / "crucible.db")) as connection:
            assert connection.execute(block.body).fetchall(), f"{where}: the query finds nothing"
    elif block.language == "console":
        for command in commands(block):
            _run_command(command, f"{page.relative_to(ROOT)}:{command.line}", folder, python)
    else:
        assert block.language == "text", f"{where}: a {block.language} block needs a title"


def _execute(block: Block, where: str, namespace: dict[str, Any]) -> None:
    if ">>> " not in block.body:
        exec(compile(block.body, where, "exec"), namespace)
        return
    examples = doctest.DocTestParser().get_doctest(block.body, namespace, where, where, block.line)
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)
    namespace |= examples.globs


def _run_command(command: Command, where: str, folder: Path, python: str) -> None:
    if _NOT_RUN.search(command.text):
        return
    in_repository = "example_suites/" in command.text
    where_run, environment = ROOT if in_repository else folder, _environment(folder, in_repository)
    status, output = 0, ""
    for part in command.text.split(" && "):
        status, printed = _printed_by(part, where_run, environment, python)
        output += printed
        if status:
            break
    lines = _normal(output.splitlines(), folder)
    expected = (command.exit_status,) if command.exit_status is not None else (0, 1)
    assert status in expected, f"{where}: exit {status}\n" + "\n".join(lines)
    _assert_shown(_normal(command.output, folder), lines, where)


def _printed_by(command: str, folder: Path, environment: dict[str, str], python: str) -> tuple[int, str]:
    """Exit status and output of one `pytest ...` or `crucible ...`; what other plugins are installed does not matter."""
    program, *arguments = shlex.split(command, comments=True)
    if program == "pytest":
        plugins = ["crucible", *["xdist"] * ("-n" in arguments), *["no:cacheprovider"] * ("--lf" not in arguments)]
        arguments = [*(f"-p{name}" for name in plugins), *arguments]
    module = {"pytest": "pytest", "crucible": "pytest_crucible"}[program]
    command_line = [python, "-m", module, *arguments]
    done = subprocess.run(command_line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _environment(folder: Path, in_repository: bool) -> dict[str, str]:
    # With CI set, pytest does not cut the lines of its short summary.
    ours = ("PYTEST_", "CRUCIBLE_", "COV_", "PYTHONDONTWRITEBYTECODE", "CI", "BUILD_NUMBER")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"COLUMNS": "80", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if in_repository:
        environment["CRUCIBLE_STORE"] = str(folder / "crucible.db")  # the checkout stays as it is
        environment |= {name: os.environ[name] for name in ("CRUCIBLE_DATA",) if name in os.environ}
    return environment


_CHANGING = (
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12}\b"), "RUN"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\d+(\.\d+)? ?s\b( \([\d:]+\))?"), "TIME"),
    (re.compile(r"^(platform|plugins:|rootdir:|configfile:|cachedir:).*"), r"\1"),
    (re.compile(r"={2,}"), "=="),
    (re.compile(r"_{3,}"), "__"),
    (re.compile(r" {3,}(?=\[ *\d+%\]$)"), "  "),
)


def _normal(lines: Sequence[str], folder: Path) -> list[str]:
    """Lines without what differs from run to run; empty ones do not count."""
    matches = []
    for line in lines:
        normal = line.rstrip().replace(f"{folder}/", "").replace(str(folder), ".")
        for changing, constant in _CHANGING:
            normal = changing.sub(constant, normal)
        if normal:
            matches.append(normal)
    return matches


def _assert_shown(expected_lines: list[str], lines: list[str], where: str) -> None:
    """Each run of shown lines occurs, side by side and after the one before; `...` parts them."""
    start = 0
    for part in _parts(expected_lines):
        places = range(start, len(lines) - len(part) + 1)
        matches = next((k for k in places if lines[k : k + len(part)] == part), None)
        output = "\n".join(lines)
        assert matches is not None, f"{where}: the output has not\n\n" + "\n".join(part) + f"\n\nbut is\n\n{output}"
        start = matches + len(part)


def _parts(expected_lines: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in [*expected_lines, "..."]:
        if line.strip() != "...":
            part.append(line)
        elif part:
            yield part
            part = []


def test_the_pages_run_few_commands() -> None:
    consoles = [block for page in PAGES for block in blocks(page) if block.language == "console"]
    run = [command for block in consoles for command in commands(block) if not _NOT_RUN.search(command.text)]

    assert len(run) <= MOST_COMMANDS, [command.text for command in run]


# -- pages that must say what the source says ---------------------------------------------------------------------


def table_rows(page: str) -> list[list[str]]:
    """The cells of all rows of all tables of a page, without heads and rules."""
    rows = []
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    for above, line in itertools.pairwise(lines):
        if (
            line.startswith("|")
            and above.startswith("|")
            and not line.startswith("|--")
            and not line.startswith("| --")
        ):
            rows.append([cell.strip().replace("\\|", "|") for cell in line.strip("|").split("|")])
    return rows


ALL_OPTIONS = (*OPTIONS, *(option for feature in all_features() for option in feature.options))


def option_row(option: Option) -> list[str]:
    """One row of the table of options, as the page writes it."""
    flag = f"--crucible-{option.name.replace('_', '-')}" + ("" if option.flag else f"={option.metavar}")
    spelled = f"`{flag}`" + (f" or `{option.alias}={option.metavar}`" if option.alias else "")
    key = f"`crucible_{option.name}` ({option.key})" if option.key else "-"
    default = "-" if option.default is None or (option.flag and option.default is False) else f"`{option.default}`"
    return [spelled if option.command_line else "-", key, default, option.help]


def test_the_table_of_options_is_the_source() -> None:
    page = (DOCS / "reference" / "options.md").read_text(encoding="utf-8")
    written = [row for row in table_rows("reference/options.md") if len(row) == 4]

    assert sorted(written) == sorted(option_row(option) for option in ALL_OPTIONS)
    assert all(f"`{option.environment}`" in page for option in ALL_OPTIONS if option.environment)


METHOD_COLUMNS = tuple(
    (scale, clustered) for scale in ("binary", "bounded", "unbounded") for clustered in (False, True)
)
"""Scale of the metric, and whether samples have groups, of the last columns of the table of methods."""


def test_the_table_of_methods_is_the_source() -> None:
    rows = [row for row in table_rows("explanation/statistics.md") if len(row) == 2 + len(METHOD_COLUMNS)]
    written = [
        (question, design, scale, clustered, method)
        for question, design, *methods in rows
        for (scale, clustered), method in zip(METHOD_COLUMNS, methods, strict=True)
        if method != "-"
    ]

    assert sorted(written) == sorted((row.question, row.design, row.scale, row.clustered, row.method) for row in TABLE)


def test_the_page_of_the_architecture_lists_every_folder_under_its_layer() -> None:
    rows = [row for row in table_rows("explanation/architecture.md") if len(row) == 3]
    listed = [(row[0], name) for row in rows for name in re.findall(r"`(\w+)`", row[1])]

    assert list(dict(listed)) == list(LAYERS)
    assert sorted(listed) == sorted((layer, name) for layer, names in LAYERS.items() for name in names.split())


def test_the_page_of_the_command_line_has_every_command() -> None:
    rows = [row for row in table_rows("reference/command-line.md") if row[0].startswith("`")]

    written = [re.sub(r"\[.*?\] ", "", row[0].rpartition("`, `")[2].strip("`")) for row in rows]
    names = [
        max((name for name in commands_of_program() if f"{text} ".startswith(f"{name} ")), key=len) for text in written
    ]
    assert sorted(names) == sorted(commands_of_program())


def test_the_page_of_metrics_names_every_metric() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    named = set(named_metrics()) - set(CNS3_METRICS)
    ours = {*metrics.__all__, *named} - {"Metric", "NotApplicable", "metric"}

    assert [name for name in sorted(ours) if f"`{name}" not in page] == []


CNS3_METRICS = tuple(cns3_plugin.pytest_crucible_metrics())


def test_the_page_of_metrics_has_every_form_of_reasoning() -> None:
    page = (DOCS / "reference/metrics.md").read_text(encoding="utf-8").replace("\\|", "|")
    missing = [form.opening for form in FORMS if not all(text in page for text in (form.opening, form.source))]

    assert not missing


@pytest.mark.parametrize("name", CNS3_METRICS)
def test_the_page_of_cns3_names_every_metric(name: str) -> None:
    page = (DOCS / "reference" / "cns3.md").read_text(encoding="utf-8")
    strict, _, thinker = page.partition("## What Thinker computes")

    assert f"`{name.removeprefix('thinker.')}`" in (thinker if name.startswith("thinker.") else strict)


def test_the_page_of_hooks_names_every_public_hook_with_its_arguments() -> None:
    page = (DOCS / "reference" / "hooks.md").read_text(encoding="utf-8")
    public, _, internal = inspect.getsource(hookspecs).partition("\n# -- internal")
    names = set(re.findall(r"^def (pytest_crucible_\w+)", public, re.MULTILINE))

    assert internal
    for name in names:
        assert f"`{name}({', '.join(inspect.signature(getattr(hookspecs, name)).parameters)})`" in page
    assert set(re.findall(r"pytest_crucible_\w+", page)) == names


def test_the_page_of_markers_has_every_argument() -> None:
    page = (DOCS / "reference" / "markers.md").read_text(encoding="utf-8")

    for marker in (*MARKERS, *(marker for feature in all_features() for marker in feature.markers)):
        assert f"`{marker.partition(':')[0]}`" in page
    for alternative in ALTERNATIVES:
        assert f"`{alternative}`" in page


def test_the_page_of_the_run_store_has_every_table_and_column() -> None:
    page = (DOCS / "reference" / "run-store.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))

    assert set(sections) == set(schema.all_tables())
    for name, table in schema.all_tables().items():
        written = {
            cell for cells in re.findall(r"^\| (`.*?`) \|", sections[name], re.MULTILINE) for cell in cells.split(", ")
        }
        assert written == {f"`{column.name}`" for column in table.columns}
    assert f"format {schema.FORMAT}" in page


def json_keys(value: Any, path: str = "") -> Iterator[str]:
    """Every key of a document as `experiments[].arms[].name`."""
    if isinstance(value, list):
        for item in value:
            yield from json_keys(item, f"{path}[]")
    elif isinstance(value, dict) and path not in FREE:
        for key, item in value.items():
            name = f"{path}.{key}" if path else key
            yield name
            yield from json_keys(item, name)


FREE = {
    "run.environment.packages",
    "run.git",
    "experiments[].arms[].parameters",
    "experiments[].sections.run_checks[].numbers",
    "experiments[].sections.run_checks[].numbers[]",
    "experiments[].sections.losses.lost",
    "experiments[].sections.losses.failures",
    "experiments[].sections.cache.reused",
    "experiments[].sections.cache.cached",
    "experiments[].sections.usage[].failed",
    "experiments[].sections.usage[].latency.intervals",
}
"""Mappings whose keys are the user's, or that are described as a whole."""
ELSEWHERE = tuple(
    f"experiments[].sections.{name}"
    for name in (
        "training",
        "worst_samples",
        "stability",
        "slices[].claims",
        "candidates",
        "stored_baselines",
        "stopping",
        "stages",
        "sweep",
        "variance",
        "many_arms",
        "slices[].arm",
        "slices[].quality",
        "slices[].expression",
        "fairness",
        "twins",
        "slice_search",
        "robustness",
        "nodes",
        "agents",
        "large_run",
    )
)
"""Sections without anything to show: nothing is trained, the candidate nowhere behind, the baseline new, no arm a registered
version, no factor random, no look, no stages, no sweep, two arms, one process, few replies. They have tests."""
LOST = (*get_args(LostReason), "not_run", "deselected")
"""Reasons that a sample is lost for when it is asked, and those that it is not asked for."""


def test_the_page_of_json_has_every_key(pytester: pytest.Pytester) -> None:
    """Both ways: the page has no key that a run has not, either."""
    importlib.import_module(
        "pytest_crucible.features.judges.judges"
    )  # once: the first session would keep it, and forget what it imports
    document = _document(pytester)
    written = page_keys()

    assert len(written) == len(set(written))
    assert {key for key in written if not key.startswith(ELSEWHERE)} == set(json_keys(document)) | set(
        json_keys(_document(pytester, fields=1))
    ) | set(json_keys(_document(pytester, last=("--crucible-fresh",))))
    page = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
    assert f"This is format {document['format']}." in page
    [lost] = (row for row in table_rows("reference/json.md") if row[0] == "`experiments[].sections.losses.lost`")
    assert set(re.findall(r"`(\w+)`", lost[2])) == set(LOST)


def _document(pytester: pytest.Pytester, *, fields: int = 2, last: tuple[str, ...] = ()) -> Any:
    """The JSON of a run with a target, a comparison, a rate, an ensemble, and what was asked before: a baseline, a member."""
    pytester.makeconftest("""
        from pytest_crucible import Reply, metric
        from pytest_crucible.features.cns3.antagonist import Finding
        from pytest_crucible.features.cns3.antagonist import to_text
        from pytest_crucible.datasets.release import Release

        class Model:
            simulated = False
            identity = "a model"

            async def generate(self, request):
                verdict = "tie" if "<first-" in request.input else "yes"
                return Reply(text=f"VERDICT: {verdict}" if "VERDICT" in request.input else "one")

        @metric(kind="text")
        def antagonist_findings(reply, sample):
            return to_text([Finding("ODD", "LOW", {"flaws": 1.0})], {"gold_flags": ["ODD"]})

        def pytest_crucible_metrics():
            return {"odd": antagonist_findings}

        def pytest_crucible_backend(adapter):
            return Model() if adapter.backend == "model" else None

        def pytest_crucible_dataset(name):
            rated, group = dict(zip("abcde", ("yes", "no") * 3)), dict(zip("abcde", "gghhh"))
            samples = [
                {"id": one, "input": one, "expected": "one", "rated": rated[one], "group": group[one]} for one in rated
            ]
            facts = {"says": "", "samples": 5, "licence": "", "source": "", "files": ()}
            return Release(name=name, read=lambda paths: samples, **facts)
        """)
    pytester.makepyfile("""
        import pytest
        from pytest_crucible import judges
        from pytest_crucible.datasets.checks import expect_no_missing_values

        right = judges.rubric("right", "Is it right?", levels={"no": 0, "yes": 1}, human="rated")
        better = judges.pairwise("better", "Which is better?", votes=2)

        @pytest.mark.crucible(dataset="two", metrics=["exact_match", "odd", right, better], limit=4)
        @pytest.mark.quality_target("passed >= 0.5", "rate(passed >= 0.5) >= 0.5")
        @pytest.mark.ab_compare("passed")
        @pytest.mark.data_check(expect_no_missing_values("expected"))
        async def test_it(sample, sampler):
            return await sampler.generate(sample.input)
        """)
    (pytester.path / "train.jsonl").write_text("".join(json.dumps({"prompt": name}) + "\n" for name in "ab"))
    lines = [json.dumps({"sample_id": sample, "text": "two"}) for sample in "abcde"]
    (pytester.path / "two.jsonl").write_text("\n".join(lines))
    (pytester.path / "crucible.toml").write_text(
        '[scorers]\njudge = { adapter = "one" }\n[adapters.one]\nbackend = "model"\n'
        '[adapters.both]\nensemble = ["one", "recorded:two.jsonl"]\ntrained_on = ["train.jsonl"]\n'
    )
    arms = ("--crucible-adapter=both", "--compare=recorded:two.jsonl")
    (pytester.path / ".crucible" / "crucible.db").unlink(missing_ok=True)
    for number in range(fields):  # at first everything is asked, and then little is
        more = ("--crucible-budget=1M requests", *(last if number == fields - 1 else ()))
        result = pytester.runpytest("-p", "no:asyncio", *arms, *more, "--crucible-json=out.json")
        assert result.ret == 0
    return json.loads((pytester.path / "out.json").read_text())


def test_the_page_of_events_has_every_kind_in_its_group() -> None:
    groups = {kind.group for kind in KINDS.values()}
    rows = {row[0]: row[1] for row in table_rows("reference/events.md") if row[0] in groups}
    written = [(group, name) for group, text in rows.items() for name in re.findall(r"`(\w+)`", text) if name in KINDS]
    unrecorded = {
        name
        for text in rows.values()
        for names in re.findall(r"((?:`\w+`, )*`\w+`): nothing", text)
        for name in re.findall(r"\w+", names)
    }

    assert sorted(written) == sorted((kind.group, name) for name, kind in KINDS.items())
    assert unrecorded == {name for name, kind in KINDS.items() if not kind.recorded_by}


def test_every_option_and_key_that_a_page_names_exists() -> None:
    flags = {f"--crucible-{option.name.replace('_', '-')}" for option in ALL_OPTIONS if option.command_line}
    keys = {f"crucible_{option.name}" for option in ALL_OPTIONS if option.key}
    for page in (*PAGES, ROOT / "CHANGELOG.md"):
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"--crucible-[a-z-]*[a-z]", text)) <= flags, page
        in_settings = re.findall(r"^(crucible_\w+) =", text, re.MULTILINE)
        assert set(in_settings) <= keys, page


def test_every_public_name_is_in_the_reference() -> None:
    """mkdocstrings builds these pages: what it is pointed at must be there."""
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")

    for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        assert _is_importable(name) or hasattr(importlib.import_module(module), attribute), name


def _is_importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def test_every_page_installs_from_the_clone() -> None:
    """The package is not on PyPI: its name there is free. In output of the package it is installed already."""
    pattern = re.compile(r"^(?! {4}).*pip install (?:\S+ )*\"?pytest-crucible.*$", re.MULTILINE)

    assert [match[0] for page in PAGES for match in pattern.finditer(page.read_text(encoding="utf-8"))] == []


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in (*PAGES, ROOT / "CHANGELOG.md"):
        for target in re.findall(r"(?<!\")\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_page_of_data_checks_has_every_check_with_its_arguments() -> None:
    written = {row[0].removesuffix(" \\*").strip("`"): row[1] for row in table_rows("reference/data-checks.md")}
    names = [name for name in data_checks.__all__ if name.startswith("expect_")]
    signatures = {call.partition("(")[0]: re.findall(r"(\w+)(?=[=,)])", call.partition("(")[2]) for call in written}

    assert sorted(signatures) == sorted(names)
    for name in names:
        arguments = [
            argument for argument in inspect.signature(getattr(data_checks, name)).parameters if argument != "severity"
        ]
        assert [argument for argument in arguments if argument not in signatures[name]] == [], name
