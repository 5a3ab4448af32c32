"""Metrics for text, numbers, choices, code, JSON, behaviour and usage, and the decorator that makes a metric of a function.

A name is imported on first use: a suite with one metric imports neither the sandbox nor the patterns of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_crucible.metrics.choice import choice_given as choice_given
    from pytest_crucible.metrics.choice import choice_match as choice_match
    from pytest_crucible.metrics.choice import choice_match_10 as choice_match_10
    from pytest_crucible.metrics.choice import choice_of as choice_of
    from pytest_crucible.metrics.choice import chooses as chooses
    from pytest_crucible.metrics.choice_probability import expected_score as expected_score
    from pytest_crucible.metrics.code_blocks import code_of as code_of
    from pytest_crucible.metrics.code_execution import humaneval_outcome as humaneval_outcome
    from pytest_crucible.metrics.code_execution import humaneval_pass as humaneval_pass
    from pytest_crucible.metrics.code_execution import humaneval_program as humaneval_program
    from pytest_crucible.metrics.code_execution import runs as runs
    from pytest_crucible.metrics.code_match import code_bleu_of as code_bleu_of
    from pytest_crucible.metrics.code_match import python_code_bleu as python_code_bleu
    from pytest_crucible.metrics.definition import Metric as Metric
    from pytest_crucible.metrics.definition import NotApplicable as NotApplicable
    from pytest_crucible.metrics.definition import metric as metric
    from pytest_crucible.metrics.ngram_overlap import corpus_score as corpus_score
    from pytest_crucible.metrics.ngram_overlap import rouge1 as rouge1
    from pytest_crucible.metrics.ngram_overlap import rouge2 as rouge2
    from pytest_crucible.metrics.ngram_overlap import rouge_l as rouge_l
    from pytest_crucible.metrics.ngram_overlap import sentence_bleu as sentence_bleu
    from pytest_crucible.metrics.ngram_overlap import sentence_chrf as sentence_chrf
    from pytest_crucible.metrics.numbers import final_number as final_number
    from pytest_crucible.metrics.numbers import final_number_matches as final_number_matches
    from pytest_crucible.metrics.quantity_match import chosen_number as chosen_number
    from pytest_crucible.metrics.quantity_match import numeric_match as numeric_match
    from pytest_crucible.metrics.quantity_match import numeric_matches as numeric_matches
    from pytest_crucible.metrics.quantity_match import quantities as quantities
    from pytest_crucible.metrics.refusals import refusal as refusal
    from pytest_crucible.metrics.refusals import refuses as refuses
    from pytest_crucible.metrics.refusals import truncated as truncated
    from pytest_crucible.metrics.schema import json_problem as json_problem
    from pytest_crucible.metrics.schema import valid_json as valid_json
    from pytest_crucible.metrics.squad import squad_exact_match as squad_exact_match
    from pytest_crucible.metrics.squad import squad_f1 as squad_f1
    from pytest_crucible.metrics.squad import squad_f1_of as squad_f1_of
    from pytest_crucible.metrics.squad import squad_normalise as squad_normalise
    from pytest_crucible.metrics.text import contains_expected as contains_expected
    from pytest_crucible.metrics.text import exact_match as exact_match
    from pytest_crucible.metrics.text import matches as matches
    from pytest_crucible.metrics.text import normalise as normalise
    from pytest_crucible.metrics.usage import cost_usd as cost_usd
    from pytest_crucible.metrics.usage import first_token_s as first_token_s
    from pytest_crucible.metrics.usage import input_tokens as input_tokens
    from pytest_crucible.metrics.usage import latency_s as latency_s
    from pytest_crucible.metrics.usage import output_tokens as output_tokens
    from pytest_crucible.metrics.usage import total_tokens as total_tokens

_NAMES = {
    "choice": "choice_given choice_match choice_match_10 choice_of chooses",
    "choice_probability": "expected_score",
    "code_blocks": "code_of",
    "code_execution": "humaneval_outcome humaneval_pass humaneval_program runs",
    "code_match": "code_bleu_of python_code_bleu",
    "definition": "Metric NotApplicable metric",
    "ngram_overlap": "corpus_score rouge1 rouge2 rouge_l sentence_bleu sentence_chrf",
    "numbers": "final_number final_number_matches",
    "quantity_match": "chosen_number numeric_match numeric_matches quantities",
    "refusals": "refusal refuses truncated",
    "schema": "json_problem valid_json",
    "squad": "squad_exact_match squad_f1 squad_f1_of squad_normalise",
    "text": "contains_expected exact_match matches normalise",
    "usage": "cost_usd first_token_s input_tokens latency_s output_tokens total_tokens",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
