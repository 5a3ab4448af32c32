"""Run against run in the dashboard: the terminal's numbers, the samples that changed, and what cannot be compared."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from experiment_builders import store_run

from pytest_crucible.cli import main
from pytest_crucible.features.view.arm_making import differing_facts, load_making
from pytest_crucible.features.view.changed_samples import _changes
from pytest_crucible.records import Sample
from pytest_crucible.runs.compare import StoredArm
from pytest_crucible.store.runs import RunStore

HOSTILE = '<script>alert(1)</script>\u202e"'
SAMPLES = [Sample(id=HOSTILE if k == 3 else f"q{k:02}", input=f"question {k}") for k in range(40)]
NEW, OLD = [True] * 30 + [False] * 10, [True] * 12 + [False] * 20 + [True] * 8


def enter_run(store: RunStore, run: str, status: str = "finished", samples=SAMPLES, **arms) -> None:
    store_run(store, run, samples, **arms)
    if status != "running":
        store.end_run(run, finished="2026-01-02", status=status)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    store = RunStore(str(path))
    enter_run(store, "aaaa", v2=NEW)
    enter_run(store, "bbbb", **{"v1": OLD, "a/b%": NEW})
    enter_run(store, "cccc", status="running", v2=NEW)
    enter_run(store, "dddd", samples=[Sample(id=f"z{k}", input=k) for k in range(5)], v2=[True] * 5)
    store.close()
    return path


def words_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_the_page_has_every_number_that_the_terminal_prints(path, client, capsys):
    main(["compare", "aaaa", "bbbb", "-v", f"--store={path}"])
    printed = set(re.findall(r"[+-]?\d+\.\d+", capsys.readouterr().out))

    text = words_of(client.get("/compare/aaaa/bbbb/results").text)

    assert len(printed) > 8
    assert {number for number in printed if number not in text} == set()


def test_margin_alternative_and_alpha_of_the_address_are_those_of_the_command(path, client, capsys):
    main(["compare", "aaaa", "bbbb", "--metric=exact", "--margin=0.3", "--alpha=0.2", f"--store={path}"])
    verdict = re.search(r"\[80 % interval\]|.*non-inferior by 0.3.*", capsys.readouterr().out)
    assert verdict is not None

    text = words_of(client.get("/compare/aaaa/bbbb/results?metric=exact&margin=0.3&alpha=0.2").text)

    assert "[80 % interval]" in text
    assert "non-inferior by 0.3" in text


def test_samples_are_listed_by_what_changed(client):
    worse = client.get("/compare/aaaa/bbbb/samples").text
    better = client.get("/compare/aaaa/bbbb/samples?change=better").text

    assert "candidate worse (8)" in words_of(worse)
    assert "candidate better (18)" in words_of(worse)
    assert re.findall(r'id="sample-(\d+)"', worse) == [str(k) for k in range(32, 40)]
    assert re.findall(r'id="sample-(\d+)"', better) == [str(k) for k in range(12, 30)]


def test_an_opened_sample_has_both_replies_and_links_to_the_pages_of_both(client):
    text = client.get("/compare/aaaa/bbbb/samples?open=35").text

    assert "v2: False" in text
    assert "v1: True" in text
    assert 'href="/runs/aaaa/samples/1/35"' in text
    assert 'href="/runs/bbbb/samples/1/35"' in text


def test_an_arm_whose_name_is_an_address_of_its_own_is_compared(client):
    [name] = {"bbbb:a%2Fb%25"}

    page = client.get(f"/compare/bbbb/{name}")
    results = client.get(f"/compare/bbbb/{name}/results")

    assert page.status_code == 200
    assert "v1 vs a/b%" in words_of(results.text)


def test_latest_and_the_beginning_of_an_id_lead_to_the_address_of_the_whole_ids(client):
    response = client.get("/compare/aa/latest?metric=exact", follow_redirects=False)

    assert response.headers["location"] == "/compare/aaaa/dddd?metric=exact"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/compare/aaaa/cccc/results", "run cccc has not finished"),
        ("/compare/aaaa/dddd/results", "the two runs have no sample in common"),
        ("/compare/aaaa/aaaa/results", "aaaa and aaaa are the same replies: compare two that differ"),
        ("/compare/aaaa/bbbb/results?metric=exakt", "metric 'exakt' was not scored in both arms: did you mean 'exact'?"),
        ("/compare/aaaa/bbbb/results?margin=0.1", "--margin, --alternative and --relevant apply to one metric"),
        ("/compare/aaaa/bbbb/results?alpha=nan", "alpha='nan' is not an error rate"),
        ("/compare/aaaa/bbbb/samples?open=40", "'40' is not a number from 0 to 39"),
        ("/compare/aaaa/bbbb/samples?page=x", "'x' is not a number from 1 to 1"),
        ("/compare/aaaa/bbbb/samples?by=nothing", "metric 'nothing' was not scored in both arms"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_a_sentence(client, address, sentence):
    response = client.get(address)

    assert response.status_code == 200
    assert sentence in words_of(response.text).replace("&#39;", "'")
    assert "interval" not in response.text


def test_what_cannot_be_compared_is_said_once(client):
    assert client.get("/compare/aaaa/cccc/samples").text == ""
    assert client.get("/compare/aaaa/dddd/samples").text == ""


def test_texts_of_a_store_are_inert(client):
    text = client.get("/compare/aaaa/bbbb/samples?open=3&change=better").text

    assert "<script" not in text
    assert "\u202e" not in text


def test_the_form_leads_to_the_comparison_with_its_choices(client):
    response = client.get("/compare?candidate=aaaa&baseline=bbbb&metric=exact&margin=", follow_redirects=False)

    assert response.headers["location"] == "/compare/aaaa/bbbb?metric=exact"
    assert client.get("/compare?candidate=aaaa").text.count('value="aaaa"') == 2


def test_what_differs_in_the_making_of_both_arms_is_named(path):
    store = RunStore(str(path))
    ours, theirs = (load_making(store, StoredArm(run)) for run in ("aaaa", "bbbb"))
    new = replace(ours.plans[0].arms[0], parameters={"temperature": 0.2}, settings={"model": HOSTILE})
    changed = replace(ours.plans[0], arms=(new,), dataset_sha256="other")
    manifest = {"packages": {f"p{k:02}": "1" for k in range(25)}, "settings": {"timeout": 3, "adapter": "x"}}

    facts = list(differing_facts(replace(ours, plans=[changed], run={**ours.run, "manifest": manifest}), theirs))

    by_name = {fact.name: (fact.ours, fact.theirs) for fact in facts}
    assert by_name["arm"] == ("v2", "v1")
    assert by_name["parameter temperature"] == ("0.2", "-")
    assert by_name["model"] == (HOSTILE, "-")
    assert by_name["setting timeout"] == ("3", "-")
    assert "setting adapter" not in by_name
    assert by_name["dataset of test_sums"][0].endswith("sha256 other")
    assert by_name["further packages"] == ("5 packages more", "")
    store.close()


def test_means_of_equal_repeats_in_another_order_are_no_change():
    ours, theirs = (np.array([sum(values) / 3]) for values in ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1)))
    changes = dict(_changes(ours, theirs, 1.0))

    assert ours != theirs
    assert [len(changes[change].positions) for change in ("worse", "better")] == [0, 0]
