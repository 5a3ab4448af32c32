"""The field's standard metrics, held to their definitions and to the packages that others use."""

from __future__ import annotations

import collections
import re
import string
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from json_tables import read_table

from pytest_crucible import Metric, NotApplicable, Reply, Sample, SpecError, metrics
from pytest_crucible.metrics import (
    chooses,
    chosen_number,
    code_bleu_of,
    corpus_score,
    json_problem,
    matches,
    numeric_match,
    python_code_bleu,
    quantities,
    refusal,
    refuses,
    rouge1,
    rouge2,
    rouge_l,
    sentence_bleu,
    sentence_chrf,
    squad_exact_match,
    squad_f1,
    squad_f1_of,
    squad_normalise,
    truncated,
)
from pytest_crucible.metrics.scripts import split_words


def expecting(expected: object) -> Sample:
    return Sample(id="a", input="", expected=expected)


# -- SQuAD ----------------------------------------------------------------------------------------------------------


def reference_normalise(text: str) -> str:
    """The definition, step by step, as the script of SQuAD 1.1 and 2.0 states it."""
    lower = text.lower()
    unpunctuated = "".join(character for character in lower if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", unpunctuated).split())


def reference_f1(reply: str, right: str) -> float:
    words, expected = reference_normalise(reply).split(), reference_normalise(right).split()
    same = sum((collections.Counter(words) & collections.Counter(expected)).values())
    if not words or not expected:
        return float(words == expected)
    if same == 0:
        return 0.0
    precision, recall = same / len(words), same / len(expected)
    return 2 * precision * recall / (precision + recall)


TEXTS = st.lists(
    st.sampled_from(["a", "the", "An", "cat", "Cat.", "sat-on", "mat", "1,000", "é", "'s"]), max_size=8
).map(" ".join)


@given(TEXTS, TEXTS)
def test_squad_metrics_follow_their_definition(reply, right):
    sample = expecting(right)

    assert squad_normalise(reply) == reference_normalise(reply)
    assert squad_f1_of(reply, right) == pytest.approx(reference_f1(reply, right), abs=1e-15)
    assert squad_exact_match(Reply(text=reply), sample) is (reference_normalise(reply) == reference_normalise(right))


@pytest.mark.parametrize("row", read_table("replies/metrics"), ids=lambda row: f"{row['metric']}: {row['reply'][:20]}")
def test_a_reply_has_the_value_of_the_table(row):
    """SQuAD's own rule takes 3.14 and 314 for one answer: numbers need `numeric_match`."""
    metric = getattr(metrics, row["metric"])
    score = metric if isinstance(metric, Metric) else metric(**row.get("settings", {}))
    value = score(Reply(text=row["reply"]), expecting(row.get("expected")))

    assert value == pytest.approx(row["value"])
    assert type(value) is type(row["value"])


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_numbers_are_read_as_people_write_them():
    for row in read_table("replies/quantities"):
        text = row.pop("text")
        numbers = [str(number) for number in quantities(text)]
        chosen = {which: chosen_number(text, which) for which in row if which != "quantities"}

        assert row.pop("quantities", numbers) == numbers
        assert row == {which: None if number is None else str(number) for which, number in chosen.items()}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("答案是42。", "42"),
        ("共１２３．５個", "247/2"),
        ("الإجابة هي ٤٢٫٥", "85/2"),
        ("उत्तर ४२ है", "42"),
        ("답은42입니다", "42"),
        ("พ.ศ. ๒๕๖๗", "2567"),
        ("พ.ศ.๒๕๖๗", None),
        ("٥٠٪", "1/2"),
        ("GPT4", None),
    ],
)
def test_numbers_of_any_script_are_read(text, number):
    value = chosen_number(text)

    assert (None if value is None else str(value)) == number


@pytest.mark.parametrize("settings", [{"which": "best"}, {"relative": -1}, {"absolute": float("inf")}])
def test_invalid_tolerances_are_errors(settings):
    with pytest.raises(SpecError, match="numeric_match"):
        numeric_match(**settings)


# -- choices ---------------------------------------------------------------------------------------------------------


def test_choices_do_not_apply_without_an_expected_letter():
    assert chooses()(Reply(text="B"), expecting("Paris")) == NotApplicable(
        "the expected answer 'Paris' is not one of the letters ABCD"
    )


# -- overlap ---------------------------------------------------------------------------------------------------------

PAIRS = [
    ("the cat sat on the mat", ["the cat is on the mat"]),
    ("The dog, they say, barks.", ["The dog barks, they say."]),
    ("completely different words", ["nothing shared here"]),
    ("same", ["same"]),
    ("", ["something"]),
    ("naïve façade — 10 %", ["naive façade - 10 %"]),
]


def test_bleu_and_chrf_equal_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    for reply, rights in PAIRS:
        bleu = sacrebleu.sentence_bleu(reply, rights).score
        chrf = sacrebleu.sentence_chrf(reply, rights).score

        assert sentence_bleu(Reply(text=reply), expecting(rights)) == pytest.approx(bleu, abs=1e-9)
        assert sentence_chrf(Reply(text=reply), expecting(rights[0])) == pytest.approx(chrf, abs=1e-9)


def test_corpus_scores_equal_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    replies, rights = [reply for reply, _ in PAIRS], [expected for _, expected in PAIRS]
    streams = [[expected[0] for expected in rights]]

    bleu, chrf = corpus_score("bleu", replies, rights), corpus_score("chrf", replies, rights)

    assert bleu.score == pytest.approx(sacrebleu.corpus_bleu(replies, streams).score, abs=1e-9)
    assert chrf.score == pytest.approx(sacrebleu.corpus_chrf(replies, streams).score, abs=1e-9)
    assert abs(bleu.score - bleu.mean_of_sentences) > 1
    assert "tok:13a" in bleu.signature


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_a_corpus_score_has_the_bootstrap_interval_of_sacrebleu(name):
    pytest.importorskip("sacrebleu")
    replies, rights = [reply for reply, _ in PAIRS] * 10, [expected[:1] for _, expected in PAIRS] * 10
    score, again = (corpus_score(name, replies, rights, resamples=100) for _ in range(2))

    assert score == again
    assert 0 <= score.interval.low < score.score < score.interval.high <= 100
    assert "bs:100|" in score.signature
    assert corpus_score(name, replies[:1], rights[:1]).interval is None


@pytest.mark.parametrize(
    ("replies", "rights"), [([], []), (["a"], []), (["a", "b"], [["a"], ["b", "c"]]), (["a"], [[]])]
)
def test_a_corpus_needs_as_many_references_as_texts(replies, rights):
    with pytest.raises(ValueError, match="expected one list of references per text"):
        corpus_score("bleu", replies, rights)


@pytest.mark.slow
def test_rouge_equals_rouge_score():
    pytest.importorskip("rouge_score")
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    for reply, rights in PAIRS:
        theirs = scorer.score(rights[0], reply)
        ours = {
            metric.name.replace("_l", "L"): metric(Reply(text=reply), expecting(rights))
            for metric in (rouge1, rouge2, rouge_l)
        }

        assert ours == {name: pytest.approx(score.fmeasure, abs=1e-12) for name, score in theirs.items()}


# Texts of a script, with another one that shares some of its words.
SCRIPTS = {
    "Cyrillic": ("Москва — столица России.", "Столица России — город Москва"),
    "Han": ("北京是中国的首都。", "中国的首都是上海。"),
    "Kana": ("東京は日本の首都です。", "日本の首都は京都です。"),
    "Hangul": ("서울은 한국의 수도입니다.", "한국의 수도는 부산입니다."),
    "Arabic": ("القاهرة عاصمة مصر.", "عاصمة مصر هي الإسكندرية"),
    "Devanagari": ("दिल्ली भारत की राजधानी है।", "भारत की राजधानी मुंबई है।"),
    "Thai": ("กรุงเทพเป็นเมืองหลวงของไทย", "เมืองหลวงของไทยคือเชียงใหม่"),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_texts_of_any_script_are_compared_by_their_words(script):
    pytest.importorskip("rouge_score")
    pytest.importorskip("sacrebleu")
    text, other = SCRIPTS[script]
    sample = expecting(text)
    best = {rouge1: 1, rouge2: 1, rouge_l: 1, squad_f1: 1, squad_exact_match: 1, sentence_bleu: 100, sentence_chrf: 100}

    assert {metric: metric(Reply(text=text), sample) for metric in best} == pytest.approx(best)
    for metric in (rouge1, rouge_l, squad_f1, sentence_bleu, sentence_chrf):
        assert 0 < metric(Reply(text=other), sample) < best[metric]
    assert rouge1(Reply(text="42"), sample) == squad_f1(Reply(text="42"), sample) == 0


def test_the_words_of_a_text_are_those_of_its_script():
    assert squad_normalise("«Москва», столица!") == "москва столица"
    assert squad_f1_of("２０２０年", "2020年") == squad_f1_of("«Мир»", "мир") == 1
    assert squad_f1_of("中国的首都", "首都") == pytest.approx(2 * 2 / 7)
    # Marks belong to their letter, and a mark of the direction of writing is no letter.
    assert split_words("हिन्दी नमस्ते \u200fשלום") == ["हिन्दी", "नमस्ते", "שלום"]
    assert split_words("GPT-4模型") == ["gpt", "4", "模", "型"]


def test_chinese_bleu_is_that_of_sacrebleus_tokenizer():
    sacrebleu = pytest.importorskip("sacrebleu")
    text, other = SCRIPTS["Han"]
    theirs = sacrebleu.sentence_bleu(other, [text], tokenize="zh").score

    assert sentence_bleu(Reply(text=other), expecting(text)) == pytest.approx(theirs, abs=1e-9)
    assert corpus_score("bleu", [other], [[text]]).mean_of_sentences == pytest.approx(theirs, abs=1e-9)


def test_a_refusal_in_another_script_is_not_recognised():
    assert refusal(Reply(text="很抱歉，我不能帮助你。"), expecting(None)) == NotApplicable(
        "refusals are recognised in English, and the reply is in another script"
    )
    assert refusal(Reply(text="The angle α is 60°."), expecting(None)) is False
    assert refusal(Reply(text="I can't help with «Война и мир».", finish="stop"), expecting(None)) is True
    assert refusal(Reply(text="", finish="content_filter"), expecting(None)) is True


def test_a_missing_package_names_the_extra(monkeypatch):
    from pytest_crucible.metrics import ngram_overlap

    ngram_overlap._sacrebleu.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics", None)
    with pytest.raises(SpecError, match=r'pip install "pytest-crucible\[text\]"'):
        sentence_bleu(Reply(text="a"), expecting("a"))


# -- code ------------------------------------------------------------------------------------------------------------

LOOP = "def f(xs):\n    total = 0\n    for x in xs:\n        total += x\n    return total\n"


def test_code_is_compared_by_tokens_trees_and_flow():
    renamed = LOOP.replace("total", "acc").replace("xs", "values")
    other = "def f(xs):\n    return sum(xs)\n"

    assert code_bleu_of(LOOP, LOOP) == 1.0
    assert code_bleu_of("# a comment\n" + LOOP, LOOP) == 1.0
    assert 1 > code_bleu_of(renamed, LOOP) > 0.5 > code_bleu_of(other, LOOP) > 0
    assert python_code_bleu(Reply(text=f"```python\n{LOOP}```"), expecting(["pass", LOOP])) == 1.0


@given(st.text(max_size=200))
@example("\r\x80")
@example(' \x85\n" \x00')
def test_any_text_has_a_score_as_code(text):
    with warnings.catch_warnings(action="ignore"):  # such as invalid escapes in what a model wrote
        assert 0 <= code_bleu_of(text, LOOP) <= 1


@pytest.mark.parametrize("text", ["(" * 50_000, "-" * 50_000 + "1", "a" + ".b" * 20_000, "x" * 50_000, "\0\0"])
def test_huge_and_nested_code_has_a_score(text):
    assert 0 <= code_bleu_of(text, LOOP) <= 1


# -- conduct ---------------------------------------------------------------------------------------------------------


def test_refusals_are_found_and_answers_are_not():
    """Precision and recall are 16 of 16 on these; another style of refusing may be missed."""
    rows = read_table("replies/refusals")

    assert [row["text"] for row in rows if refuses(row["text"]) is not row["refuses"]] == []


def test_withheld_and_truncated_replies_are_counted():
    assert refusal(Reply(text="", finish="content_filter"), expecting(None)) is True
    assert truncated(Reply(text="and", finish="length"), expecting(None)) is True
    assert truncated(Reply(text="."), expecting(None)) is False
    assert refusal.facts.direction == truncated.facts.direction == "lower"


# -- JSON and patterns -------------------------------------------------------------------------------------------------

AGED = {"type": "object", "properties": {"people": {"type": "array", "items": {"required": ["age"]}}}}


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "not JSON: Expecting property name"), ("[" * 100_000, "nested too deeply to be read")]
)
def test_json_problem_names_the_path(text, problem):
    assert json_problem(AGED)(Reply(text=text), expecting(None)).startswith(problem)


def test_an_invalid_pattern_is_an_error():
    with pytest.raises(SpecError, match="is not a regular expression"):
        matches("(")
