"""The page of samples and its rows, without a browser."""

from __future__ import annotations

import contextlib

import pytest

from pytest_crucible.features.view.pages import samples as samples_of_page
from pytest_crucible.records import MetricFacts, Sample
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client
from tests.stored_samples import FAILED, LOST, SKIPPED, Answer, numbered_samples, score, store_samples

ANSWERS = {
    "v2": [score(m=True), score(m=False), FAILED, LOST, SKIPPED, Answer({"m": None}, latency_s=2.0)],
    "v1": [score(m=False), score(m=True), score(m=True), score(m=True), SKIPPED, Answer({"m": True})],
}


@pytest.fixture
def client(path):
    store_samples(path, numbered_samples(6), ANSWERS)
    with dashboard_client(path) as client:
        yield client


def rows_of(client, query: str = "") -> dict:
    response = client.get(f"/runs/run/samples/rows?{query}")
    assert response.status_code == 200, response.text
    return response.json()


def positions(client, query: str) -> list[int]:
    return [row["position"] for row in rows_of(client, query)["rows"]]


def test_rows_tell_apart_what_is_lost_failed_skipped_and_not_applicable(client):
    rows = rows_of(client)["rows"]

    assert [(row["scores"][0], row["states"][0], row["difference"]) for row in rows] == [
        ("1", "answered", "+1"),
        ("0", "answered", "-1"),
        ("0", "failed", "-1"),
        ("", "lost", ""),
        ("", "skipped", ""),
        ("not applicable", "answered", ""),
    ]


def test_rows_have_the_beginnings_of_prompt_and_reply(path):
    samples = [Sample(id="a", input=[{"role": "user", "content": "How\n" * 100}], group="g")]
    store_samples(path, samples, {"v2": [Answer(text="<think>because</think>So\nit is")]})

    with dashboard_client(path) as client:
        [row] = rows_of(client)["rows"]

    assert row["prompt"].startswith("How How How")
    assert len(row["prompt"]) == 120
    assert row["reply"] == "(reasoning: 7 characters) So it is"
    assert (row["id"], row["group"]) == ("a", "g")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("show=worse", [1, 2]),
        ("show=better", [0]),
        ("show=failed", [2]),
        ("show=lost", [3]),
        ("show=skipped", [4]),
        ("sort=most-lost", [1, 2, 0, 3, 4, 5]),
        ("sort=slowest", [5, 0, 1, 2, 3, 4]),
        ("search=QUESTION 3", [3]),
        ("sort=best&from=1&count=2", [1, 2]),
        ("from=100", []),
    ],
)
def test_the_query_filters_and_sorts(client, query, expected):
    assert positions(client, query) == expected


def test_rows_around_a_sample_have_its_place(client):
    answer = rows_of(client, "sort=most-lost&around=2&count=3")

    assert (answer["place"], answer["from"], answer["total"]) == (1, 0, 6)
    assert [row["position"] for row in answer["rows"]] == [1, 2, 0]
    assert rows_of(client, "show=better&around=2")["place"] is None


def test_links_have_the_state_of_the_list(client):
    [row] = rows_of(client, "show=better&search=question")["rows"]

    assert row["href"] == "/runs/run/samples/1/0?show=better&search=question"


def test_each_experiment_of_a_run_has_its_own_list(path):
    store_samples(path, numbered_samples(2), {"v2": [score(m=True)] * 2})
    store_samples(path, numbered_samples(3), {"v3": [score(n=0.5)] * 3}, nodeid="t.py::other")

    with dashboard_client(path) as client:
        answer = rows_of(client, "experiment=2")
        page = client.get("/runs/run/samples?experiment=2").text

    assert (answer["metric"], answer["size"]) == ("n", 3)
    assert answer["rows"][0]["href"].startswith("/runs/run/samples/2/0")
    assert '<option value="2" selected>t.py::other</option>' in page


def test_groups_slices_and_text_metrics(path):
    samples = [Sample(id=str(k), input="?", group="ab"[k % 2], metadata={"topic": "x%_"[k]}) for k in range(3)]
    labels = {
        "v2": [score(label=name) for name in ("no", "yes", "no")],
        "v1": [score(label="no"), score(label="no"), LOST],
    }
    store_samples(path, samples, labels, groups=2)

    with dashboard_client(path) as client:
        assert positions(client, "group=a") == [0, 2]
        assert positions(client, "by=topic&slice=%25") == [1]
        assert positions(client, "show=equal") == [0]
        assert positions(client, "sort=best") == [1, 0, 2]
        rows = rows_of(client)["rows"]
        choices = client.get("/runs/run/samples/choices").json()

    assert [row["scores"] for row in rows] == [["no", "no"], ["yes", "no"], ["no", ""]]
    assert [row["gain"] for row in rows] == [0, None, None]
    assert choices["groups"] == [{"value": name, "text": name} for name in "ab"]
    assert [(slicing["field"]["value"], len(slicing["slices"])) for slicing in choices["slices"]] == [("topic", 3)]


def test_lower_is_better_and_the_chosen_baseline_counts(path):
    arms = {"v3": [score(s=2.0)], "v2": [score(s=1.0)], "v1": [score(s=3.0)]}
    store_samples(path, numbered_samples(1), arms, metrics=(MetricFacts(name="s", direction="lower", low=0.0),))

    with dashboard_client(path) as client:
        gains = [rows_of(client, f"baseline={number}")["rows"][0]["difference"] for number in (1, 2)]

    assert gains == ["-1", "+1"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("metric=nope", "metric='nope' of the address is not valid: choose one of 'm'"),
        ("from=-1", "from='-1' of the address is not valid: write a whole number from 0 to 1,000,000,000"),
        ("sort=wurst", "sort='wurst' of the address is not valid: did you mean 'worst'?"),
        ("experiment=2", "experiment='2' of the address is not valid: write a whole number from 1 to 1"),
        ("baseline=2", "baseline=2 of the address is not valid: the experiment has 1 baseline"),
        (f"search={'x' * 1001}", "a search of 1,001 characters is too long: write at most 1,000"),
    ],
)
def test_an_invalid_address_is_explained_and_the_page_stays_usable(client, query, sentence):
    rows, page = client.get(f"/runs/run/samples/rows?{query}"), client.get(f"/runs/run/samples?{query}")

    assert (rows.status_code, rows.json()) == (400, {"error": sentence})
    assert page.status_code == 400
    assert sentence.replace("'", "&#39;") in page.text
    assert '<select name="sort">' in page.text


@pytest.mark.parametrize("query", ["group=x", "by=x", "around=-1", "count=0", "count=501"])
def test_rows_of_names_that_are_not_there_are_refused(client, query):
    assert client.get(f"/runs/run/samples/rows?{query}").status_code == 400


def test_more_groups_than_a_list_shows_are_typed(path, monkeypatch):
    monkeypatch.setattr(samples_of_page, "MOST_GROUPS", 1)
    samples = [Sample(id=str(k), input="?", group=f"g{k}") for k in range(2)]
    store_samples(path, samples, {"v2": [score(m=True)] * 2}, groups=2)

    with dashboard_client(path) as client:
        assert client.get("/runs/run/samples/choices").json()["groups"] is None


def test_a_run_without_experiments_has_a_page(path):
    store_samples(path, numbered_samples(1), {"v2": [score(m=True)]})
    with contextlib.closing(RunStore(str(path))) as store:
        store.begin_run("empty", started="2026-01-02", seed=0, alpha=0.05, correction="holm", environment={}, git={})

    with dashboard_client(path) as client:
        assert "no experiments yet" in client.get("/runs/empty/samples").text
        assert client.get("/runs/empty/samples/rows").status_code == 400


HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e\"'{{ 7*7 }}"


def test_hostile_names_are_inert(path):
    samples = [Sample(id=HOSTILE, input=HOSTILE, group=HOSTILE, metadata={HOSTILE: HOSTILE})]
    store_samples(path, samples, {"v2": [Answer({"m": 1.0}, text=HOSTILE)]}, groups=1, nodeid=f"t.py::{HOSTILE}")

    with dashboard_client(path) as client:
        page = client.get("/runs/run/samples").text
        row = rows_of(client)["rows"][0]

    assert "<img" not in page
    assert "\u202e" not in page + row["id"] + row["group"] + row["prompt"] + row["reply"]
    assert "\\u202e" in row["id"]


def test_equal_repeats_in_another_order_are_equal(path):
    ours, theirs = ([score(w=value) for value in values] for values in ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1)))
    store_samples(path, numbered_samples(1), {"v2": [ours], "v1": [theirs]}, repeats=3)

    with dashboard_client(path) as client:
        assert rows_of(client)["rows"][0]["difference"] == "0"
        assert positions(client, "show=equal") == [0]
