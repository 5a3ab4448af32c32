"""Precision, recall, existence and their compositions are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.presets.cns3 import thinker
from pytest_crucible.presets.cns3.claims import Citations
from pytest_crucible.presets.cns3.judgement import Gold

CLAIM_133 = Citations(
    cited=frozenset({"16280642", "12640810", "6969753"}),
    gold=frozenset({"6969753", "17934082", "38485364", "16280642", "12640810"}),
    shown=frozenset({"6969753", "17934082", "38485364", "16280642", "12640810"}),
)
CLAIM_179 = Citations(
    cited=frozenset({"17450673", "23557241"}),
    gold=frozenset({"16322674", "27123743", "23557241", "17450673"}),
    shown=frozenset({"16322674", "27123743", "23557241", "17450673"}),
)
ids = st.frozensets(st.sampled_from("abcdef"))


@pytest.mark.parametrize(("one", "recall"), [(CLAIM_133, 3 / 5), (CLAIM_179, 2 / 4)])
def test_documents_that_were_left_out_are_not_inventions(one, recall):
    """Two claims that were reported as hallucinated citations: every id that was cited stood in the prompt."""
    assert one.recall == recall
    assert one.precision == 1.0
    assert one.exists == 1.0
    assert one.exact is True
    assert one.complete is False


def test_an_invented_id_passes_as_complete_and_not_as_exact():
    one = Citations(frozenset({"1", "2", "99999999"}), frozenset({"1", "2"}), frozenset({"1", "2"}))

    assert (one.complete, one.exact, one.exists, one.recall) == (True, False, 2 / 3, 1.0)


def test_citing_nothing_has_recall_but_no_precision():
    one = Citations(frozenset(), frozenset({"1"}), frozenset({"1"}))

    assert (one.precision, one.exists, one.recall, one.any, one.exact, one.complete) == (
        None,
        None,
        0.0,
        False,
        False,
        False,
    )


def test_without_gold_documents_nothing_can_be_right():
    one = Citations(frozenset({"1"}), frozenset(), frozenset({"1"}))

    assert (one.recall, one.any, one.exact, one.exists) == (None, None, None, 1.0)


@given(ids, ids, ids)
def test_exact_is_full_precision_with_something_cited(cited, gold, shown):
    one = Citations(cited, gold, shown)

    if one.gold:
        assert one.exact == (one.precision == 1.0)
        assert one.complete == (one.recall == 1.0)
    if one.exact:
        assert one.any


def test_what_is_echoed_of_the_prompt_counts_for_thinker():
    gold = Gold("a", "SUPPORT", ("7",), {"7": (0,)}, {})

    assert thinker.citation_valid("Document 7: title", gold)
    assert thinker.evidence_overlap("Document 8: title", gold) == 0.0
