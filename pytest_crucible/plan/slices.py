"""Targets and comparisons by fields of the samples: checks of the fields, and one comparison for each slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.records import Contrast, Measure, Sample, Twin
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.slices import TWIN


def sample_fields(samples: Sequence[Sample]) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """Return `expected` and metadata of all samples, and of their twins, whose field `twin` is the name of their variant."""
    expected: list[Any] = [sample.expected for sample in samples]
    metadata: list[Mapping[str, Any]] = [sample.metadata for sample in samples]
    for sample in samples:
        for name, twin in sample.variants.items():
            if isinstance(twin, Twin) and TWIN in sample.metadata:
                expected.append(sample.expected)
                metadata.append({**sample.metadata, TWIN: name})
    return expected, metadata


def check_fields(measures: Iterable[Measure], expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> None:
    """Raise SpecError for a target or a comparison by a field that does not divide the samples."""
    for measure in measures:
        if measure.by is None or measure.slice:
            continue
        from pytest_crucible.measures.fields import field_problem

        problem = field_problem(measure.by, expected, metadata)
        if problem:
            raise SpecError(f"{measure.expression}: {problem}")


def expand_slices(
    contrasts: Iterable[Contrast], expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]
) -> tuple[Contrast, ...]:
    """Return the comparisons with one for each slice in place of each that is by a field, such as `accuracy by topic`.

    A comparison of an extreme, such as a gap, stays one. Raises SpecError for `within`, which standardises extremes only.
    """
    expanded: list[Contrast] = []
    for contrast in contrasts:
        if contrast.by is None or contrast.slice or STATISTICS[contrast.statistic].of_slices:
            expanded.append(contrast)
            continue
        if contrast.by.within is not None:
            raise SpecError(f"{contrast.expression}: within standardises gap, ratio and worst only; leave it out")
        from pytest_crucible.measures.fields import slice_samples

        slicing = slice_samples(contrast.by, expected, metadata)
        expanded += [
            replace(contrast, slice=name, slice_size=int((slicing.codes == code).sum()))
            for code, name in enumerate(slicing.names)
        ]
    return tuple(expanded)
