"""The roles of a table's columns: as the user names them, or else by their usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

ARMS = ("arm", "model", "adapter", "variant", "provider", "model_name", "version", "system")
# Role -> usual column names. Only the user can name `metrics`, `metadata` and `arms`, which are lists. In a long table `lost`
# has the reason of an empty value.
USUAL: Mapping[str, tuple[str, ...]] = {
    "sample": (
        *("sample", "sample_id", "id", "example_id", "case_id", "case", "question_id", "doc_id", "test_id"),
        *("item_id", "task_id", "inputs", "input", "user_input", "question", "prompt"),
    ),
    "arm": ARMS,
    "metric": ("metric", "metric_name"),
    "value": ("value", "score", "metric_value"),
    "repeat": ("repeat", "epoch", "trial", "attempt", "repetition_number", "completion_id"),
    "task": ("task", "eval_name", "experiment", "suite", "benchmark"),
    "group": ("group", "cluster", "sample_group"),
    "reply": ("reply", "output", "outputs", "answer", "completion", "prediction", "response"),
    "error": ("error", "error_message", "reason"),
    "lost": ("lost",),
    "metrics": (),
    "metadata": (),
    "arms": (),
}

# Roles that several columns may have: `--column metrics=A,B`.
LISTS = ("metrics", "metadata", "arms")
_NAME = re.compile(r'(?:^|,)(?:"([^"]+)"(?=,|\Z)|([^,]*))')


def split_names(names: str) -> list[str]:
    """Return the columns of a list, in which a name with a comma stands in double quotes.

    >>> split_names('sex,"income, yearly"')
    ['sex', 'income, yearly']
    """
    return [quoted or plain for quoted, plain in _NAME.findall(names)]


def _quote_name(name: str) -> str:
    return f'"{name}"' if "," in name else name


def roles(has: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return role -> column, of the columns that the table has. Raises SpecError for an unknown role or a missing column."""
    for role, column in chosen.items():
        if role not in USUAL:
            raise SpecError(f"--column {role}={column}: the roles are {', '.join(USUAL)}")
        for column_name in split_names(column) if role in LISTS else (column,):
            if column_name not in has:
                hint = suggest(column_name, has, always=f"there are {', '.join(map(_quote_name, has))}")
                raise SpecError(f"no column named {column_name!r} has values: {hint}")
    # Reversed, so that of two columns that differ in case only the first wins.
    lower = {name.lower(): name for name in reversed(has)}
    usual = {
        role: next((lower[column_name] for column_name in names if column_name in lower), "")
        for role, names in USUAL.items()
    }
    roles_found = {role: column for role, column in {**usual, **chosen}.items() if column}
    # A column named score is then a metric of that name.
    if not {"metric", "value"} <= set(roles_found):
        roles_found.pop("value", None)
        roles_found.pop("lost", None)
    return roles_found
