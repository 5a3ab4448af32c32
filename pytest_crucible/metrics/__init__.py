"""Metrics for text, numbers, choices, code, JSON, behaviour and usage, and the decorator that makes a metric of a function."""

from pytest_crucible.metrics.choice import choice_given, choice_match, choice_match_10, choice_of, chooses
from pytest_crucible.metrics.code_blocks import code_of
from pytest_crucible.metrics.code_execution import humaneval_outcome, humaneval_pass, humaneval_program, runs
from pytest_crucible.metrics.code_match import code_bleu_of, python_code_bleu
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.ngram_overlap import corpus_score, rouge1, rouge2, rouge_l, sentence_bleu, sentence_chrf
from pytest_crucible.metrics.numbers import final_number, final_number_matches
from pytest_crucible.metrics.quantities import chosen_number, numeric_match, numeric_matches, quantities
from pytest_crucible.metrics.refusal import refusal, refuses, truncated
from pytest_crucible.metrics.schema import json_problem, valid_json
from pytest_crucible.metrics.squad import squad_exact_match, squad_f1, squad_f1_of, squad_normalise
from pytest_crucible.metrics.text import contains_expected, exact_match, matches, normalise
from pytest_crucible.metrics.usage import (
    cost_usd,
    first_token_s,
    input_tokens,
    latency_s,
    output_tokens,
    total_tokens,
)

__all__ = [
    "Metric",
    "NotApplicable",
    "choice_given",
    "choice_match",
    "choice_match_10",
    "choice_of",
    "chooses",
    "chosen_number",
    "code_bleu_of",
    "code_of",
    "contains_expected",
    "corpus_score",
    "cost_usd",
    "exact_match",
    "final_number",
    "final_number_matches",
    "first_token_s",
    "humaneval_outcome",
    "humaneval_pass",
    "humaneval_program",
    "input_tokens",
    "json_problem",
    "latency_s",
    "matches",
    "metric",
    "normalise",
    "numeric_match",
    "numeric_matches",
    "output_tokens",
    "python_code_bleu",
    "quantities",
    "refusal",
    "refuses",
    "rouge1",
    "rouge2",
    "rouge_l",
    "runs",
    "sentence_bleu",
    "sentence_chrf",
    "squad_exact_match",
    "squad_f1",
    "squad_f1_of",
    "squad_normalise",
    "total_tokens",
    "truncated",
    "valid_json",
]
