"""Methods in sentences: each that a session can use has words, and what it cites is known."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.features.slices import fairness_section, search_section
from pytest_crucible.features.sweeps import section as sweep
from pytest_crucible.report.methods import METHODS, cited_keys, known_references, method_statements
from pytest_crucible.sections import many_arms
from pytest_crucible.stats import TABLE

WITHOUT_DOI = {"banerjee1961", "cochran1977", "korn1998", "bell2002", "holm1979", "gaffke2005", "westfall1993"}
"""Journals that give none to papers of these years."""


def test_every_method_of_a_session_has_words():
    used = {
        row.method
        for row in TABLE
        if (row.question in ("estimate", "bound") and row.design == "one arm")
        or (row.question in ("compare", "margin", "ratio claim", "ratio margin") and row.design == "pairs")
    }  # fmt: skip

    assert used - {"none"} <= set(METHODS)


def test_citations_and_references_match():
    keys = {key for _, cites in METHODS.values() for key in cites} | {
        *("mcnemar1947", "holm1979", "hyndman1996"),
        *("phipson2010", "besag1991"),
    }

    of_sections = {*many_arms.METHOD.cites, *sweep.CITES, *fairness_section.CITES, *search_section.CITES}
    assert keys | of_sections == set(known_references())


def test_references_have_the_fields_that_bibtex_requires():
    for entry in known_references().values():
        assert {"author", "title", "year"} <= set(entry.fields)
        assert {"journal", "volume", "pages"} <= set(entry.fields) or "publisher" in entry.fields
        assert entry.bibtex().startswith(f"@{entry.type}{{{entry.key},\n")
        assert entry.fields["year"] in entry.plain()
        assert "doi" in entry.fields or entry.key in WITHOUT_DOI
        assert not entry.fields.get("edition", "Third")[0].isdigit()  # styles write it before the word edition


def test_a_book_is_cited_with_its_edition():
    statements = known_references()["david2003"].plain()

    assert statements == (
        "David, Herbert A. and Nagaraja, Haikady N. (2003). Order Statistics, third edition. Wiley. doi:10.1002/0471722162"
    )


def test_the_methods_of_a_run_are_described(run):
    sentences = [entry.text for entry in method_statements(run())]

    assert (
        sentences[0]
        == "Intervals are two-sided at 95 % unless another level is beside them; n counts samples, and lost ones are counted apart."
    )
    assert "Estimates are by Wilson's score interval." in sentences
    assert any(text.startswith("A verdict is called proven only where") for text in sentences)  # v2 lost two
    assert not any("Holm" in text for text in sentences)
    assert any("over the 3 comparisons" in entry.text for entry in method_statements(run(family_size=3)))
    assert cited_keys(list(method_statements(run()))) == (
        "wilson1927", "fagerland2013", "lloyd2007", "tango1998", "berger1994", "clopper1934", "mcnemar1947"
    )  # fmt: skip


def test_permutation_tests_and_their_bounds_are_described(run, analysis):
    [exact] = analysis().comparisons
    interval = replace(exact.interval, method="gaffke")
    flipped = replace(exact, method="sign flips", arrangements=10_000, proof_p=0.3, p_exact=None, interval=interval)
    counted = replace(flipped, arrangements=1_024, is_exact=True)

    statements = list(method_statements(run(analysis(comparisons=(flipped, counted)), family_size=2)))
    texts = [statement.text for statement in statements]

    assert any(text.startswith("Differences are by Gaffke's bound") for text in texts)
    assert (
        "Tests that the replies of two arms could be exchanged are by sign flips of the pairs' differences, whole groups together, "
        "with the studentised mean." in texts
    )
    assert (
        "Each compares 1,024 to 10,000 arrangements, and p is the share of those as extreme as the observed one, itself included. "
        "Random arrangements are drawn by the seed of the run. They do not show that a mean is lower or higher; that is called "
        "proven by bounds alone." in texts
    )
    assert any("in two families" in text for text in texts)
    assert {"pesarin2010", "hemerik2020", "phipson2010", "besag1991"} <= set(cited_keys(statements))


def test_random_factors_are_named(run, plan):
    """What two rounds have to do with an interval stands before the interval's method."""
    whole = run()
    experiments = tuple(
        replace(entry, plan=replace(entry.plan, rounds=3, repeats=3 * entry.plan.repeats))
        for entry in whole.experiments
    )

    sentences = [entry.text for entry in method_statements(replace(whole, experiments=experiments))]

    assert "Random factors, whose noise the intervals count: rounds." in sentences
