"""Finds what a run has to hide before anything of it is stored: in its samples, and in what attacks make of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.records import ModelCall, NoTwin, Sample
from pytest_crucible.records.serialize import texts_in
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.redact_reports import key_redactor

if TYPE_CHECKING:
    from pytest_crucible.adapters.findings_redactor import FindingsRedactor


class LearnedFindings:
    """Teaches the redactor of --crucible-redact what a run's samples hold. Without the option it does nothing."""

    def __init__(self, config: pytest.Config) -> None:
        self._redactor: FindingsRedactor | None = key_redactor(config).findings

    def learn(self, experiments: Iterable[Experiment]) -> None:
        """Learn from all samples of the experiments, and from the twins of their variants."""
        if self._redactor is None:
            return
        planned = list(experiments)
        # All samples first: a twin is read with what any of them holds.
        for experiment in planned:
            for sample in experiment.dataset.samples:
                for text in texts_in([sample.id, sample.group, sample.input, sample.expected, sample.metadata]):
                    self._redactor(text)
        for experiment in planned:
            for sample in experiment.dataset.samples:
                twins = (variant.twin(sample.id) for variant in experiment.variants)
                self._learn_twins(sample, [twin.input for twin in twins if not isinstance(twin, NoTwin)])
        self._redactor.begin()

    def learn_sent(self, sample: Sample, calls: Sequence[ModelCall]) -> None:
        """Learn from the texts that a test sent for a twin of a sample, which it or a model may have made itself."""
        if self._redactor is not None:
            sent = [json.loads(call.text) if call.is_json else call.text for call in calls]
            self._learn_twins(sample, sent)

    def _learn_twins(self, sample: Sample, changed: Iterable[Any]) -> None:
        original = "\n".join(texts_in(sample.input))
        if self._redactor is not None and self._redactor.values.find(original):
            for text in texts_in(list(changed)):
                self._redactor.values.learn_changed(original, text)
