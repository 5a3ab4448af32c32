"""The fields of a stored run's samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.analyse.twins import is_by_twin, stack_fields
from pytest_crucible.measures.fields import field_problem, read_field
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.slices import By
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.stored_samples import expected_values, has_metadata, metadata_values

Fields = tuple[Sequence[Any], Sequence[Mapping[str, Any]]]
"""Each sample's `expected`, and its metadata."""


def load_fields(store: RunStore, plan: Plan) -> Fields:
    """Return each sample's `expected` and metadata, in the dataset's order."""
    return expected_values(store, plan.dataset_sha256), metadata_values(store, plan.dataset_sha256)


def check_stored_fields(store: RunStore, run: str, plan: Plan, by: By, what: str) -> None:
    """Raise SpecError for fields that do not divide a stored run's samples, or that were stored without metadata."""
    expected, metadata = load_fields(store, plan)
    if is_by_twin(by, plan.variants):
        # The prompts may all be of one version, and their twins of another.
        expected, metadata = stack_fields([variant.name for variant in plan.variants], expected, metadata)
    for field in (*by.fields, *(() if by.within is None else (by.within,))):
        is_absent = all(read_field(field.name, *sample) is None for sample in zip(expected, metadata, strict=True))
        if is_absent and not has_metadata(store, plan.dataset_sha256):
            again = "run it again"
            if "imported" in store.run(run)["environment"]:
                again = f"import it again, a table with --column metadata={field.name}"
            raise SpecError(f"run {run} was stored without metadata, so it has no field {field.name!r}; {again}")
    problem = field_problem(by, expected, metadata)
    if problem:
        raise SpecError(f"{what}: {problem}")
