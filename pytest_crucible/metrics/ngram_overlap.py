"""BLEU, chrF and ROUGE by the standard packages (extra `[text]`), for single replies and for a corpus.

The packages' tokenizers are for English. Words of other scripts are those of `scripts`: ROUGE uses them where a reply or an
expected answer has letters that are not Latin, and BLEU separates the characters of scripts without blanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any, Literal

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.scripts import is_latin, separate_characters, split_words
from pytest_crucible.metrics.text import NO_EXPECTED, expected_answers
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.interval import Interval

# Characters that are compared: beyond, time grows with the square of a runaway reply's length.
LONGEST = 100_000
Rouge = Literal["rouge1", "rouge2", "rougeL"]


def _package_version(package: str, own: str) -> str:
    """Return a metric version with the package's: scores of different versions are not compared."""
    try:
        return f"{own}:{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{own}:{package}"


def _missing_package(package: str) -> SpecError:
    return SpecError(f'this metric needs the package {package}: pip install "pytest-crucible[text]"')


@cache
def _sacrebleu(name: str, sentence: bool) -> Any:
    try:
        from sacrebleu.metrics import BLEU, CHRF  # type: ignore[import-not-found,attr-defined,unused-ignore]  # an extra
    except ImportError as error:
        raise _missing_package("sacrebleu") from error
    # sacrebleu's own settings of its sentence functions, so that our figures equal its figures.
    return BLEU(effective_order=sentence) if name == "bleu" else CHRF()


class _AnyScript:
    """Splits a text into words of any script, and stems ASCII words as rouge-score does."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of rouge-score

        self._stem = PorterStemmer().stem

    def tokenize(self, text: str) -> list[str]:
        return [self._stem(word) if word.isascii() and len(word) > 3 else word for word in split_words(text)]


@cache
def _rouge(kind: str, *, latin: bool) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra
    except ImportError as error:
        raise _missing_package("rouge-score") from error
    return RougeScorer([kind], use_stemmer=True, tokenizer=None if latin else _AnyScript())


def _separate(name: str, texts: Sequence[str]) -> list[str]:
    """Return the texts with blanks between the characters of scripts without blanks, for BLEU, whose words they are."""
    return [separate_characters(text, punctuation=True) for text in texts] if name == "bleu" else list(texts)


def _sentence(name: str, reply: Reply, sample: Sample) -> float | NotApplicable:
    if sample.expected in (None, []):
        return NO_EXPECTED
    text, *rights = _separate(name, [reply.text[:LONGEST], *expected_answers(sample)])
    score = _sacrebleu(name, True).sentence_score(text, rights).score
    # Rounding may give 100.00000000000004.
    return min(float(score), 100.0)


def _rouge_f(kind: Rouge, reply: Reply, sample: Sample) -> float | NotApplicable:
    if sample.expected in (None, []):
        return NO_EXPECTED
    text, rights = reply.text[: LONGEST // 10], expected_answers(sample)
    # One tokenizer for both: rouge-score's own splits words at letters with accents.
    scorer = _rouge(kind, latin=all(map(is_latin, (text, *rights))))
    return float(scorer.score_multi(rights, text)[kind].fmeasure)


@metric(bounds=(0, 100), version=_package_version("sacrebleu", "2"))
def sentence_bleu(reply: Reply, sample: Sample) -> float | NotApplicable:
    """BLEU of one reply, by sacrebleu (13a, exponential smoothing, effective order). Its mean is not corpus BLEU."""
    return _sentence("bleu", reply, sample)


@metric(bounds=(0, 100), version=_package_version("sacrebleu", "1"))
def sentence_chrf(reply: Reply, sample: Sample) -> float | NotApplicable:
    """chrF2 of one reply, by sacrebleu (6 characters, beta 2). Its mean is not corpus chrF."""
    return _sentence("chrf", reply, sample)


@metric(bounds=(0, 1), version=_package_version("rouge-score", "2"))
def rouge1(reply: Reply, sample: Sample) -> float | NotApplicable:
    """ROUGE-1 F of one reply, by rouge-score with stemming; the best of several references."""
    return _rouge_f("rouge1", reply, sample)


@metric(bounds=(0, 1), version=_package_version("rouge-score", "2"))
def rouge2(reply: Reply, sample: Sample) -> float | NotApplicable:
    """ROUGE-2 F of one reply, by rouge-score with stemming; the best of several references."""
    return _rouge_f("rouge2", reply, sample)


@metric(bounds=(0, 1), version=_package_version("rouge-score", "2"))
def rouge_l(reply: Reply, sample: Sample) -> float | NotApplicable:
    """ROUGE-L F of one reply (longest common subsequence), by rouge-score with stemming; the best of several references."""
    return _rouge_f("rougeL", reply, sample)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusScore:
    """The score of a whole corpus, from 0 to 100."""

    name: str
    score: float
    interval: Interval | None
    """From sacrebleu's bootstrap over the texts; None for a single text, or without resamples."""
    mean_of_sentences: float
    """The quantity that a session compares: the mean of the replies' own scores. It differs from the corpus score."""
    signature: str
    n: int


def corpus_score(
    name: Literal["bleu", "chrf"], texts: Sequence[str], references: Sequence[Sequence[str]], *, resamples: int = 1000
) -> CorpusScore:
    """Return BLEU or chrF of a corpus: n-gram counts are summed over all texts before dividing.

    `references` holds the reference texts of each text, the same number for all. The 95 % interval is sacrebleu's own
    (Koehn 2004): it resamples texts, so it assumes independent texts; it follows SACREBLEU_SEED. Raises ValueError for unequal
    lengths.

    >>> corpus_score("bleu", ["the cat sat"], [["the cat sat"]]).n  # doctest: +SKIP
    1
    """
    if name not in ("bleu", "chrf"):
        raise ValueError(f"{name!r} is not a corpus score: write 'bleu' or 'chrf'")
    if (
        not texts
        or len(texts) != len(references)
        or len({len(several) for several in references}) != 1
        or not references[0]
    ):
        raise ValueError(
            f"expected one list of references per text, all of one length; got {len(texts)} texts and "
            f"{len(references)} lists of lengths {sorted({len(several) for several in references})}"
        )
    whole, single = _sacrebleu(name, False), _sacrebleu(name, True)
    texts, references = _separate(name, texts), [_separate(name, several) for several in references]
    streams = [list(stream) for stream in zip(*references, strict=True)]
    drawn = resamples if len(texts) > 1 and resamples > 1 else 1
    whole_score = whole.corpus_score(list(texts), streams, n_bootstrap=drawn)
    sentences = [
        single.sentence_score(several, list(right)).score for several, right in zip(texts, references, strict=True)
    ]
    return CorpusScore(
        name=name,
        score=float(whole_score.score),
        interval=_interval(whole_score) if drawn > 1 else None,
        mean_of_sentences=sum(sentences) / len(sentences),
        signature=str(whole.get_signature()),
        n=len(texts),
    )


def _interval(whole_score: Any) -> Interval:
    """Return sacrebleu's interval: the mean of the resamples, plus or minus half the width of their middle 95 %."""
    low, high = float(whole_score._mean - whole_score._ci), float(whole_score._mean + whole_score._ci)
    return Interval(low=max(0.0, low), high=min(100.0, high), level=0.95, method="bootstrap-percentile")
