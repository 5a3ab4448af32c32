"""Which column of a table has what: by what the user says, else by its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pytest_crucible.errors import SpecError

ARMS = ("arm", "model", "adapter", "variant", "provider", "model_name", "version", "system")
USUAL: Mapping[str, tuple[str, ...]] = {
    "sample": (
        *("sample", "sample_id", "id", "example_id", "case_id", "case", "question_id", "doc_id", "test_id"),
        *("inputs", "input", "question", "prompt"),
    ),
    "arm": ARMS,
    "metric": ("metric", "metric_name"),
    "value": ("value", "score", "metric_value"),
    "repeat": ("repeat", "epoch", "trial", "attempt"),
    "task": ("task", "eval_name", "experiment", "suite", "benchmark"),
    "group": ("group", "cluster", "sample_group"),
    "reply": ("reply", "output", "outputs", "answer", "completion", "prediction", "response"),
    "error": ("error", "error_message", "reason"),
    "lost": ("lost",),
    "metrics": (),
}
"""Role -> what others call it. `metrics` is a list, and only the user knows it; `lost` says of a long table's empty values why."""


def roles(has: Sequence[str], said: Mapping[str, str]) -> dict[str, str]:
    """Role -> column, of those that the table has. Raises SpecError for a role or a column that there is not."""
    for role, column in said.items():
        if role not in USUAL:
            raise SpecError(f"--column {role}={column}: the roles are {', '.join(USUAL)}")
        for one in column.split(",") if role == "metrics" else (column,):
            if one not in has:
                near = difflib.get_close_matches(one, has, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise SpecError(f"there is no column {one!r} with anything in it: {hint}there are {', '.join(has)}")
    lower = {name.lower(): name for name in reversed(has)}
    usual = {role: next((lower[one] for one in names if one in lower), "") for role, names in USUAL.items()}
    found = {role: column for role, column in {**usual, **said}.items() if column}
    if not {"metric", "value"} <= set(found):  # a column named score is then a metric of that name
        found.pop("value", None)
        found.pop("lost", None)
    return found
