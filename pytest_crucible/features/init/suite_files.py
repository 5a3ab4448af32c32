"""The files of a first suite: adapters, a test and a CI workflow, written where none of them exists yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pytest_crucible.features.init.data_file import ChosenMetric, SuiteData
from pytest_crucible.features.init.reply_sources import ReplySource
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

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
