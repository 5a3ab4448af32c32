"""`crucible init`: asks for missing options on a terminal, writes a first suite where none exists, and runs five samples."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.backends.openai.probe import server_adapter, try_server
from pytest_crucible.backends.openai.settings import DEFAULT_KEY
from pytest_crucible.commands.options import field_option, load_dataset, parse_field
from pytest_crucible.commands.server import server_options
from pytest_crucible.features.init.data_file import (
    ChosenMetric,
    SuiteData,
    choose_metric,
    example_rows,
    first_row,
    guess_fields,
)
from pytest_crucible.features.init.reply_sources import ReplySource, embedded_source, results_source, server_source
from pytest_crucible.importers.formats import read_results
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import aligned_lines, printable
from pytest_crucible.runs.plugins import importers
from pytest_crucible.runs.run_store import project_root

# Few enough to be cheap, enough to see that replies are scored.
FIRST = 5
INTERRUPTED = 2


@click.command("init")
@server_options
@click.option(
    "--results", type=click.Path(path_type=Path), metavar="FILE", help="Results of another harness: use its replies."
)
@click.option("--data", metavar="FILE", help="Samples: .jsonl, .json, .csv, .tsv or .parquet, or a built-in dataset.")
@field_option
def init(
    url: str | None, model: str, key_env: str, results: Path | None, data: str | None, fields: Sequence[str]
) -> int:
    """Write crucible.toml, a test and a CI workflow into this folder, and run five samples.

    Replies come from --server or --results, or without both from the small model in this package. On a terminal, what no
    option names is asked for. Nothing is overwritten, and nothing is written before a server has replied.
    """
    _check_place()
    if url and results:
        raise SpecError("--server and --results are two sources of replies: write one of them")
    asks = is_interactive() and not (url or results)
    if asks:
        url, results = ask_source()
    if asks and url:
        key_env, model = key_env or ask_key(), model or ask_model()
    source = _source(url, model, key_env, results)
    if data and source.rows:
        raise SpecError("--results has samples of its own: leave --data out")
    if asks and not data and not source.rows:
        data = ask_data()
    if fields and not data:
        raise SpecError("--field names fields of a data file, and there is none: add --data FILE")
    suite_data = _read_data(data, fields, asks=asks) if data else SuiteData.of_rows(source.rows or example_rows())
    suite = FirstSuite(source=source, data=suite_data, metric=choose_metric(suite_data.expected))
    write_files(suite.files())
    click.echo(f"wrote {', '.join(suite.files())}")
    click.echo(f"metric {suite.metric.name}: {suite.metric.reason}")
    status = _run_first(suite.baseline)
    click.echo("\n".join(_next_lines(suite)))
    return status


def _check_place() -> None:
    """Raise SpecError where a suite exists, or where pytest would not read a new one."""
    check_absent([ADAPTERS, TEST, WORKFLOW])
    root = project_root()
    if root != Path.cwd():
        raise SpecError(f"pytest's root directory is {root}, and it reads {ADAPTERS} there: run crucible init there")
    adapters = read_adapters(root)
    if adapters:
        named = ", ".join(sorted(adapters))
        raise SpecError(f"pyproject.toml has adapters ({named}), which {ADAPTERS} would hide: add to those")


def _source(url: str | None, model: str, key_env: str, results: Path | None) -> ReplySource:
    if results:
        return results_source(read_results(results, readers=importers()))
    if not url:
        return embedded_source()
    adapter = server_adapter(url, model, key_env)
    try_server(adapter)
    return server_source(adapter)


def _read_data(name: str, fields: Sequence[str], *, asks: bool) -> SuiteData:
    """Return the samples of a file, and show its fields. Raises DatasetError."""
    names = dict(map(parse_field, fields))
    if Path(name).exists():
        row = first_row(Path(name))
        click.echo("\n".join([f"{name} has these fields:", *field_lines(row)]))
        names = names or (ask_fields(row, guess_fields(row)) if asks else guess_fields(row))
    samples, _ = load_dataset(name, [f"{ours}={theirs}" for ours, theirs in names.items()])
    click.echo(f"{len(samples):,} samples: {', '.join(f'{ours} = {theirs}' for ours, theirs in names.items())}")
    renamed = {ours: theirs for ours, theirs in names.items() if ours != theirs}
    return SuiteData(name=name, fields=renamed, expected=[sample.expected for sample in samples])


def _run_first(adapter: str) -> int:
    """Run the first samples and return pytest's exit status."""
    stages = ["-o", f"crucible_stages=first: {FIRST}, all", "--crucible-until=first"]
    arguments = [TEST, f"--crucible-adapter={adapter}", *stages]
    # pytest writes to the same output, after what was buffered.
    click.echo(f"\n{FIRST} samples: pytest {shlex.join(arguments)}\n")
    sys.stdout.flush()
    process = subprocess.Popen([sys.executable, "-m", "pytest", *arguments])
    try:
        return process.wait()
    except KeyboardInterrupt:
        # The session has the signal, too: it stores what it has, and says so.
        process.wait()
        return INTERRUPTED


def _next_lines(suite: FirstSuite) -> Iterator[str]:
    count = len(suite.data.expected)
    yield ""
    if suite.candidate:
        yield f"compare two adapters on all {count:,} samples:"
        yield f"  pytest --crucible-adapter={suite.candidate} --compare={suite.baseline}"
    else:
        yield f"compare another adapter with {suite.baseline} on all {count:,} samples:"
        yield f"  pytest --crucible-adapter=openai+http://HOST/v1#MODEL --compare={suite.baseline}"


# Characters of a field's first value: enough to recognise it.
A_LOOK = 60
NONE = "-"
"""The answer for no field."""


def is_interactive() -> bool:
    """Return whether somebody can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_source() -> tuple[str, Path | None]:
    """Return the URL of a server, or a results file; empty and None for the embedded model."""
    answer = _ask("Server URL (https://HOST/v1) or results file of another harness (Enter: the model in this package)")
    if answer.startswith(("http://", "https://")):
        return answer, None
    return "", Path(answer) if answer else None


def ask_key() -> str:
    """Return the environment variable with the server's key; empty for the default one, or none."""
    if DEFAULT_KEY in os.environ:
        return ""
    return _ask("Environment variable with its key (Enter: it needs none)")


def ask_model() -> str:
    """Return the name of the server's model; empty for its only one."""
    return _ask("Model (Enter: the server's only one)")


def ask_data() -> str:
    """Return a data file; empty for the example."""
    return _ask("Data file: .jsonl, .json, .csv, .tsv or .parquet (Enter: example questions)")


def ask_fields(row: Mapping[str, Any], guessed: Mapping[str, str]) -> dict[str, str]:
    """Return the file's names of input and expected answer, beside those of id and group that were guessed."""
    answers = dict(guessed)
    for field, question in (
        ("input", "Field of the input"),
        ("expected", f"Field of the expected answer ({NONE}: none)"),
    ):
        choices = click.Choice([*map(str, row), NONE])
        answers[field] = click.prompt(question, default=guessed.get(field, NONE), type=choices, show_choices=False)
    return {field: name for field, name in answers.items() if name != NONE}


def field_lines(row: Mapping[str, Any]) -> list[str]:
    """Return the fields of a file with the first value of each."""
    return [f"  {line}" for line in aligned_lines([("field", "first value"), *_values(row)])]


def _values(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (printable(str(name), A_LOOK), printable(str(value).replace("\n", " "), A_LOOK)) for name, value in row.items()
    ]


def _ask(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False)
    return answer.strip()


ADAPTERS, TEST, WORKFLOW = "crucible.toml", "test_first.py", ".github/workflows/evals.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSuite:
    """The content of a first suite."""

    source: ReplySource
    data: SuiteData
    metric: ChosenMetric

    def files(self) -> dict[str, str]:
        """Return path -> content of each file."""
        rows = {self.data.name: self.data.rows} if self.data.rows else {}
        return {
            **{name: _lines(content) for name, content in {**rows, **self.source.replies}.items()},
            ADAPTERS: "\n".join(_toml_lines(self.source)),
            TEST: _render("test_first.py.j2", suite=self),
            WORKFLOW: _render("evals.yml.j2", suite=self),
        }

    @property
    def requirement(self) -> str:
        """The package that CI installs. Data in Parquet need an extra."""
        extra = "[parquet]" if self.data.name.endswith(".parquet") else ""
        return f"pytest-crucible{extra} @ git+https://github.com/pytest-crucible/pytest-crucible"

    @property
    def baseline(self) -> str:
        return next(iter(self.source.adapters))

    @property
    def candidate(self) -> str:
        """The last adapter; empty if there is one alone."""
        *others, last = self.source.adapters
        return last if others else ""


def check_absent(names: Iterable[str]) -> None:
    """Raise SpecError if one of the files exists: nothing is ever overwritten."""
    there = [name for name in names if Path(name).exists()]
    if there:
        raise SpecError(
            f"{' and '.join(there)} {'exist' if len(there) > 1 else 'exists'} here, and crucible init never overwrites: run it "
            "in an empty folder, or remove or rename what is there"
        )


def write_files(files: Mapping[str, str]) -> None:
    """Write the files. Raises SpecError if one cannot be written, and removes those that were."""
    check_absent(files)
    paths: list[Path] = []
    try:
        for name, content in files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            # `x`: another process may have made it since the check.
            with path.open("x", encoding="utf-8") as file:
                paths.append(path)
                file.write(content)
    except OSError as error:
        for path in paths:
            path.unlink(missing_ok=True)
        raise SpecError(f"{error.filename or name} cannot be written: {error.strerror or error}") from error


def _render(template: str, **values: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["literal"] = _literal
    return environment.get_template(template).render(values)


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _literal(value: Any) -> str:
    """Return a value as Python, texts in double quotes."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _toml_lines(source: ReplySource) -> Iterable[str]:
    yield f"# {source.about}"
    for name, table in source.adapters.items():
        yield f"[adapters.{name}]"
        yield from (f"{key} = {_toml(value)}" for key, value in table.items())
        yield ""


def _toml(value: Any) -> str:
    """Return a value as TOML: texts of JSON are texts of TOML but for a DEL character, which no setting has.

    >>> _toml({"max_tokens": 8, "stop": "\\n"})
    '{ max_tokens = 8, stop = "\\\\n" }'
    """
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
