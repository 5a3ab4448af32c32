"""BLEU, chrF and ROUGE, by the field's own packages (extra `[text]`), for each reply and for a whole corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, Literal

from pytest_crucible.errors import SpecError
from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Interval, Reply, Sample

LONGEST = 100_000
"""Characters that are compared: beyond, time would grow with the square of what a model writes."""
Rouge = Literal["rouge1", "rouge2", "rougeL"]


def _of(package: str) -> str:
    """Scores of two versions of a package are not compared."""
    try:
        return f"1:{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"1:{package}"


def _missing(package: str) -> SpecError:
    return SpecError(f'this metric needs the package {package}: pip install "pytest-crucible[text]"')


@cache
def _sacrebleu(name: str, sentence: bool) -> Any:
    try:
        from sacrebleu.metrics import BLEU, CHRF  # type: ignore[import-not-found,attr-defined,unused-ignore]  # an extra
    except ImportError as error:
        raise _missing("sacrebleu") from error
    # sacrebleu's own settings of its sentence functions, so that its figures are ours.
    return BLEU(effective_order=sentence) if name == "bleu" else CHRF()


@cache
def _rouge(kind: str) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra
    except ImportError as error:
        raise _missing("rouge-score") from error
    return RougeScorer([kind], use_stemmer=True)


def _references(sample: Sample) -> list[str] | NotApplicable:
    expected = sample.expected
    if expected is None or expected == []:
        return NO_EXPECTED
    return [str(one) for one in expected] if isinstance(expected, list | tuple) else [str(expected)]


def _sentence(name: str, reply: Reply, sample: Sample) -> float | NotApplicable:
    references = _references(sample)
    if isinstance(references, NotApplicable):
        return references
    score = _sacrebleu(name, True).sentence_score(reply.text[:LONGEST], references).score
    return min(float(score), 100.0)  # rounding leaves 100.00000000000004


def _rouge_f(kind: Rouge, reply: Reply, sample: Sample) -> float | NotApplicable:
    references = _references(sample)
    if isinstance(references, NotApplicable):
        return references
    return float(_rouge(kind).score_multi(references, reply.text[: LONGEST // 10])[kind].fmeasure)


@metric(bounds=(0, 100), version=_of("sacrebleu"))
def sentence_bleu(reply: Reply, sample: Sample) -> float | NotApplicable:
    """BLEU of one reply, by sacrebleu (13a, exponential smoothing, effective order). Its mean is not corpus BLEU."""
    return _sentence("bleu", reply, sample)


@metric(bounds=(0, 100), version=_of("sacrebleu"))
def sentence_chrf(reply: Reply, sample: Sample) -> float | NotApplicable:
    """chrF2 of one reply, by sacrebleu (6 characters, beta 2). Its mean is not corpus chrF."""
    return _sentence("chrf", reply, sample)


@metric(bounds=(0, 1), version=_of("rouge-score"))
def rouge1(reply: Reply, sample: Sample) -> float | NotApplicable:
    """ROUGE-1 F of one reply, by rouge-score with stemming; the best of several references."""
    return _rouge_f("rouge1", reply, sample)


@metric(bounds=(0, 1), version=_of("rouge-score"))
def rouge2(reply: Reply, sample: Sample) -> float | NotApplicable:
    """ROUGE-2 F of one reply, by rouge-score with stemming; the best of several references."""
    return _rouge_f("rouge2", reply, sample)


@metric(bounds=(0, 1), version=_of("rouge-score"))
def rouge_l(reply: Reply, sample: Sample) -> float | NotApplicable:
    """ROUGE-L F of one reply (longest common subsequence), by rouge-score with stemming; the best of several references."""
    return _rouge_f("rougeL", reply, sample)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusScore:
    """A score of a whole corpus, in 0 to 100."""

    name: str
    score: float
    interval: Interval | None
    """Of sacrebleu's bootstrap over the texts; None where there is but one, or none was asked for."""
    mean_of_sentences: float
    """What a session compares: another quantity, of which each reply has its own value."""
    signature: str
    n: int


def corpus_score(
    name: Literal["bleu", "chrf"], said: Sequence[str], references: Sequence[Sequence[str]], *, resamples: int = 1000
) -> CorpusScore:
    """BLEU or chrF of a corpus: n-gram counts are summed over all texts before they are divided.

    `references` has the right texts of each text; all need the same number of them. The 95 % interval is sacrebleu's own
    (Koehn 2004), which draws texts, so that it is for texts that have nothing to do with each other; it follows
    SACREBLEU_SEED. Raises ValueError for lengths that differ.

    >>> corpus_score("bleu", ["the cat sat"], [["the cat sat"]]).n  # doctest: +SKIP
    1
    """
    if name not in ("bleu", "chrf"):
        raise ValueError(f"{name!r} is no corpus score: write 'bleu' or 'chrf'")
    if not said or len(said) != len(references) or len({len(one) for one in references}) != 1 or not references[0]:
        raise ValueError(
            f"wanted as many texts as lists of references, all of one length, not {len(said)} and "
            f"{len(references)} of lengths {sorted({len(one) for one in references})}"
        )
    whole, single = _sacrebleu(name, False), _sacrebleu(name, True)
    streams = [list(stream) for stream in zip(*references, strict=True)]
    drawn = resamples if len(said) > 1 and resamples > 1 else 1
    found = whole.corpus_score(list(said), streams, n_bootstrap=drawn)
    sentences = [single.sentence_score(one, list(right)).score for one, right in zip(said, references, strict=True)]
    return CorpusScore(
        name=name,
        score=float(found.score),
        interval=_interval(found) if drawn > 1 else None,
        mean_of_sentences=sum(sentences) / len(sentences),
        signature=str(whole.get_signature()),
        n=len(said),
    )


def _interval(found: Any) -> Interval:
    """As sacrebleu says it: the mean of the resamples, and half the width of the middle 95 % of them."""
    low, high = float(found._mean - found._ci), float(found._mean + found._ci)
    return Interval(low=max(0.0, low), high=min(100.0, high), level=0.95, method="bootstrap-percentile")
