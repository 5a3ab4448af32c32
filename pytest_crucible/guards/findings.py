"""Personal data and secrets as guards: a text with a finding has the score 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from pytest_crucible.detectors.phones import has_phonenumbers, load_phonenumbers
from pytest_crucible.detectors.pii import PII_TYPES, PhoneMethod, find_pii
from pytest_crucible.detectors.secrets import SECRET_TYPES, find_secrets
from pytest_crucible.guards.guard import ScoredText
from pytest_crucible.guards.kinds import GuardContext
from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.records.detections import Span
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

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
