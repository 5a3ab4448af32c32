"""The kinds of guards: detectors, models, and functions of the user's own.

Personal data and secrets are found by the detectors of the package, or by presidio (extra `[guard]`). A classifier is in Hugging
Face's format (extra `[nli]`), and an LLM judge is another adapter.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from pytest_crucible.features.guards.guard import GuardContext, GuardSettings, ScoredText, Scorer
from pytest_crucible.metrics.models.scorers import DATA, Judge, NoVerdict, closing_lines, read_verdict, wrap_in_tags
from pytest_crucible.metrics.models.weights import digest, find_directory, missing_extra
from pytest_crucible.quick_dataclass import dataclass
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
    from pytest_crucible.detectors.phones import has_phonenumbers, load_phonenumbers
    from pytest_crucible.detectors.pii import PII_TYPES, PhoneMethod, find_pii

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
    from pytest_crucible.detectors.secrets import SECRET_TYPES, find_secrets

    types = read_types(settings, SECRET_TYPES)
    return FindingsGuard(
        lambda text: [span for span in find_secrets(text) if span.type in types], f"secrets {VERSION} {types}"
    )


def read_types(settings: GuardSettings, type_names: Sequence[str]) -> tuple[str, ...]:
    """Return the setting `types`, by default all. Raises SpecError for an unknown one."""
    types: Any = settings.options.get("types", list(type_names))
    if not isinstance(types, list) or not types:
        raise SpecError(f"{settings.place} has types = {types!r}: write a list, such as types = [{type_names[0]!r}]")
    unknown = next((name for name in types if name not in type_names), None)
    if unknown is not None:
        hint = suggest(str(unknown), type_names, always=f"the types are {', '.join(type_names)}")
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


EXTRA = "nli"
_ATTACKS = re.compile(
    r"attack|injection|jailbreak|unsafe|toxic|malicious|harmful|spam|hate|label_1$|^1$", re.IGNORECASE
)


class ClassifierGuard:
    """Scores a text by the probability of the label that means an attack. A longer text is cut at the model's limit."""

    def __init__(self, model: str, label: str | None, *, revision: str | None, root: Path, place: str) -> None:
        """Raises SpecError if the model is not available, or does not name the label."""
        directory = find_directory(model, revision, root, extra=EXTRA)
        sha256 = digest(directory)
        try:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise missing_extra(f'{place}: kind = "classifier"', EXTRA) from error
        self._torch: Any = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        loaded = AutoModelForSequenceClassification.from_pretrained(
            directory, use_safetensors=True, trust_remote_code=False
        )
        self._model: Any = loaded.eval()
        self._number, self.label = find_attack_label(self._model.config.id2label, label, place)
        self.identity = f"classifier {sha256} {self.label}"

    async def score(self, text: str) -> ScoredText:
        return ScoredText(await asyncio.to_thread(self._compute, text), self.label)

    def _compute(self, text: str) -> float:
        limit = min(self._tokenizer.model_max_length, getattr(self._model.config, "max_position_embeddings", 512))
        inputs = self._tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)
        with self._torch.inference_mode():
            logits = self._model(**inputs).logits[0]
        return float(logits.softmax(-1)[self._number])


def find_attack_label(labels: Mapping[int, str], label: str | None, place: str) -> tuple[int, str]:
    """Return the number and the name of the label that means an attack. Raises SpecError if that is not clear.

    >>> find_attack_label({0: "SAFE", 1: "INJECTION"}, None, "guards.c")
    (1, 'INJECTION')
    """
    attacks = [
        (number, name) for number, name in labels.items() if (_ATTACKS.search(name) if label is None else name == label)
    ]
    if len(attacks) != 1:
        raise SpecError(
            f'{place}: the model has the labels {", ".join(labels.values())}: write which one means an attack, label = "..."'
        )
    return attacks[0]


def open_classifier(settings: GuardSettings, context: GuardContext) -> ClassifierGuard:
    """Return the guard of `model`, a directory or a name on the hub."""
    options = settings.options
    return ClassifierGuard(
        options["model"],
        options.get("label"),
        revision=options.get("revision"),
        root=context.root,
        place=settings.place,
    )


_ANSWERS = ("yes", "no")


class JudgeGuard:
    """Scores 1 where the judge answers yes. Its requests go through the wrappers of its adapter: cached and budgeted."""

    def __init__(self, judge: Judge, question: str) -> None:
        self._judge, self._question = judge, question
        self.identity = f"judge {judge.identity} {question!r}"

    async def score(self, text: str) -> ScoredText:
        """Raises BackendError if the judge gives no reply, or none that can be read."""
        reply = await self._judge.query(judge_prompt(self._question, text))
        try:
            return ScoredText(float(read_verdict(reply, _ANSWERS) == "yes"))
        except NoVerdict as error:
            raise BackendError(str(error)) from None


def judge_prompt(question: str, text: str) -> str:
    """Return the prompt: the question, and the text in a tag that it cannot close."""
    return "\n\n".join(
        [
            f"Answer a question about a text.\n\nQuestion: {question}",
            DATA,
            *wrap_in_tags([("text", text)]),
            closing_lines(_ANSWERS),
        ]
    )


def open_judge(settings: GuardSettings, context: GuardContext) -> JudgeGuard:
    """Return the guard of `adapter` and `question`. Raises SpecError for an adapter that cannot answer prompts."""
    return JudgeGuard(context.open_judge(settings.options["adapter"]), settings.options["question"])


@dataclass(frozen=True, slots=True)
class GuardKind:
    """One kind of guard."""

    open: Callable[[GuardSettings, GuardContext], Scorer]
    """Raises SpecError for settings that cannot be used."""
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Options that have to be there."""
    queries_model: bool = False
    """An estimate, which calls no model, does without the guard."""


def _open_linear(settings: GuardSettings, context: GuardContext) -> Scorer:
    from pytest_crucible.features.guards.linear import open_linear

    return open_linear(settings, context)


def _open_rules(settings: GuardSettings, context: GuardContext) -> Scorer:
    from pytest_crucible.features.guards.rules import open_rules

    return open_rules(settings, context)


KINDS: Mapping[str, GuardKind] = {
    "rules": GuardKind(_open_rules, ("patterns",)),
    "pii": GuardKind(open_pii, ("types", "phones")),
    "secrets": GuardKind(open_secrets, ("types",)),
    "linear": GuardKind(_open_linear, ("path",), ("path",)),
    "classifier": GuardKind(open_classifier, ("model", "revision", "label"), ("model",), True),
    "judge": GuardKind(open_judge, ("adapter", "question"), ("adapter", "question"), True),
    "presidio": GuardKind(open_presidio, ("types",)),
}
_FUNCTION = GuardKind(open_function)
OPTIONS: Mapping[str, tuple[str, ...]] = {name: kind.options for name, kind in KINDS.items()}
"""The settings of each kind."""


def queries_model(kind: str) -> bool:
    """Return whether guards of a kind call a model."""
    return KINDS.get(kind, _FUNCTION).queries_model


def open_scorer(settings: GuardSettings, context: GuardContext) -> Scorer:
    """Return the scorer of a guard, opened by its kind. Raises SpecError for settings that cannot be used."""
    kind = KINDS.get(settings.kind, _FUNCTION)
    missing = next((name for name in kind.needs if not isinstance(settings.options.get(name), str)), None)
    if missing is not None:
        raise SpecError(f'{settings.place} has kind = "{settings.kind}" but no {missing!r}: add {missing} = "..."')
    return kind.open(settings, context)
