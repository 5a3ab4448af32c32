"""Guards that call a detector: of personal data and secrets, of presidio (extra `[guard]`), or a function of the user's own."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, get_args

from pytest_crucible.detectors.phones import has_phonenumbers, load_phonenumbers
from pytest_crucible.detectors.pii import PII_TYPES, PhoneMethod, find_pii
from pytest_crucible.detectors.secrets import SECRET_TYPES, find_secrets
from pytest_crucible.guards.guard import GuardContext, GuardSettings, ScoredText
from pytest_crucible.records.errors import BackendError, SpecError, suggest
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.object_reference import import_function
from pytest_crucible.records.outcomes import Detection, Span

VERSION = "3"
"""Changes when other texts are found."""


class FindingsGuard:
    """Scores 1 where a detector finds something, and 0 elsewhere."""

    def __init__(self, find: Callable[[str], Sequence[Span]], identity: str) -> None:
        self.identity = identity
        self.find_spans = find

    async def score(self, text: str) -> ScoredText:
        spans = tuple(self.find_spans(text))
        return ScoredText(1.0, spans[0].type, spans) if spans else ScoredText(0.0)


def open_pii(settings: GuardSettings, context: GuardContext) -> FindingsGuard:
    """Return a guard of personal data: `types` are presidio's names, `phones` one of `PhoneMethod`."""
    types = read_types(settings, PII_TYPES)
    phones = settings.options.get("phones", "auto")
    if phones not in get_args(PhoneMethod):
        raise SpecError(f"{settings.place} has phones = {phones!r}: write one of {', '.join(get_args(PhoneMethod))}")
    version = VERSION
    if phones == "phonenumbers" or (phones == "auto" and has_phonenumbers()):
        try:
            version = f"{VERSION} phonenumbers {load_phonenumbers().__version__}"
        except ImportError as error:
            raise SpecError(f"{settings.place}: {error}") from None
    return FindingsGuard(lambda text: find_pii(text, types, phones=phones), f"pii {version} {types}")


def open_secrets(settings: GuardSettings, context: GuardContext) -> FindingsGuard:
    """Return a guard of keys, tokens and passwords."""
    types = read_types(settings, SECRET_TYPES)
    return FindingsGuard(
        lambda text: [span for span in find_secrets(text) if span.type in types], f"secrets {VERSION} {types}"
    )


def read_types(settings: GuardSettings, known: Sequence[str]) -> tuple[str, ...]:
    """Return the setting `types`, by default all. Raises SpecError for an unknown one."""
    types: Any = settings.options.get("types", list(known))
    if not isinstance(types, list) or not types:
        raise SpecError(f"{settings.place} has types = {types!r}: write a list, such as types = [{known[0]!r}]")
    unknown = next((name for name in types if name not in known), None)
    if unknown is not None:
        hint = suggest(str(unknown), known, always=f"the types are {', '.join(known)}")
        raise SpecError(f"{settings.place} has {unknown!r} among its types: {hint}")
    return tuple(types)


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


class FunctionGuard:
    """Calls a function, in a thread where it is not async: it may block."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function
        self.identity = "function " + hashlib.sha256("\n".join(sources(function)).encode()).hexdigest()

    async def score(self, text: str) -> ScoredText:
        """Raises BackendError for anything but a bool, a number from 0 to 1 or a Detection."""
        if inspect.iscoroutinefunction(self._function):
            return _as_score(await self._function(text))
        return _as_score(await asyncio.to_thread(self._function, text))


def open_function(settings: GuardSettings, context: GuardContext) -> FunctionGuard:
    """Return the guard of a "module:function". Raises SpecError if it cannot be imported."""
    return FunctionGuard(import_function(f"{settings.place} has kind", settings.kind))


def _as_score(value: Any) -> ScoredText:
    if isinstance(value, Detection):
        score, category, spans = value.score, value.category, value.spans
    elif isinstance(value, bool):
        score, category, spans = float(value), "", ()
    else:
        score, category, spans = value, "", ()
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not math.isfinite(score) or not 0 <= score <= 1:
        raise BackendError(f"it returned {value!r:.60}: expected a bool, a number from 0 to 1, or a Detection")
    return ScoredText(float(score), category, tuple(spans))
