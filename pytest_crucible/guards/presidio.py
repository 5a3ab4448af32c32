"""Presidio's pattern recognisers as a guard, without a language model and without network (extra `[guard]`)."""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import version
from typing import Any

from pytest_crucible.guards.guard import ScoredText
from pytest_crucible.guards.kinds import GuardContext
from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.records.detections import Span
from pytest_crucible.records.errors import SpecError


class PresidioGuard:
    """Scores a text by presidio's most certain finding."""

    def __init__(self, analyzer: Any, types: tuple[str, ...] | None) -> None:
        self._analyzer, self._types = analyzer, types
        self.identity = f"presidio {version('presidio-analyzer')} {types}"

    async def score(self, text: str) -> ScoredText:
        return await asyncio.to_thread(self._score, text)

    def find_spans(self, text: str) -> tuple[Span, ...]:
        """Return the places of its findings."""
        return self._score(text).spans

    def _score(self, text: str) -> ScoredText:
        entities = None if self._types is None else list(self._types)
        results = self._analyzer.analyze(text, language="en", entities=entities)
        if not results:
            return ScoredText(0.0)
        best = max(results, key=lambda result: result.score)
        spans = sorted(
            (Span(result.entity_type, result.start, result.end) for result in results), key=lambda span: span.start
        )
        return ScoredText(float(best.score), best.entity_type, tuple(spans))


def open_presidio(settings: GuardSettings, context: GuardContext) -> PresidioGuard:
    """Return the guard. Raises SpecError without the extra, and for types that are not a list."""
    types = settings.options.get("types")
    if types is not None and not (isinstance(types, list) and all(isinstance(name, str) for name in types)):
        raise SpecError(f'{settings.place} has types = {types!r}: write a list, such as types = ["CREDIT_CARD"]')
    return PresidioGuard(_pattern_analyzer(settings), None if types is None else tuple(types))


def _pattern_analyzer(settings: GuardSettings) -> Any:
    try:
        import spacy
        import tldextract
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import SpacyNlpEngine
    except ImportError:
        raise SpecError(
            f'{settings.place} has kind = "presidio", which needs further packages: pip install "pytest-crucible[guard]"'
        ) from None

    class Blank(SpacyNlpEngine):
        """A pipeline that only splits words: patterns need no model."""

        def __init__(self) -> None:
            super().__init__()
            blank: Any = {"en": spacy.blank("en")}
            self.nlp = blank

    # It would fetch the list of public suffixes; the one in its wheel is good enough.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=())
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    return AnalyzerEngine(nlp_engine=Blank(), supported_languages=["en"])
