"""A metric over commits in the dashboard: the table of `crucible trend`, and metrics whose names are addresses of their own."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from experiment_builders import store_run

from pytest_crucible.cli import main
from pytest_crucible.records import MetricFacts, Sample
from pytest_crucible.store.runs import RunStore

ODD = "a/b%2F?<script>alert(1)</script>\u202e"
SAMPLES = [Sample(id=f"q{k:02}", input=k) for k in range(40)]


def enter_run(store: RunStore, run: str, right: int, **facts) -> None:
    store_run(store, run, SAMPLES, v2=[k < right for k in range(40)], v1=[k < 9 for k in range(40)], **facts)
    store.end_run(run, finished="2026-01-02", status="finished")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    store = RunStore(str(path))
    enter_run(store, "aaaa", 35)
    enter_run(store, "bbbb", 33)
    enter_run(store, "cccc", 8)
    enter_run(store, "dddd", 30, metric=ODD, metrics=(MetricFacts(name=ODD, kind="binary"),))
    enter_run(store, "eeee", 20, nodeid="test_sums.py::test_others")
    store_run(store, "ffff", SAMPLES, v2=[True] * 40)
    store.close()
    return path


def words_of(html: str) -> str:
    text = re.sub(r"<[^>]*>", " ", html).replace("&lt;", "<").replace("&#39;", "'")
    return " ".join(text.split())


@pytest.mark.parametrize(("query", "options"), [
    ("suite=test_sums.py::test_sums", ["--suite=test_sums.py::test_sums"]),
    ("suite=::test_sums&last=2&alpha=0.2", ["--suite=::test_sums", "--last=2", "--alpha=0.2"]),
    ("suite=::test_sums&adapter=v1", ["--suite=::test_sums", "--adapter=v1"]),
])  # fmt: skip
def test_the_page_has_the_lines_that_the_terminal_prints(path, client, capsys, query, options):
    main(["trend", "exact", *options, f"--store={path}"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]

    text = words_of(client.get(f"/trend/exact/points?{query}").text)

    assert len(lines) > 2
    for line in lines:
        assert " ".join(line).replace("<- changed, proven", "") in text or line[0] == "run", line


def test_each_point_leads_to_its_run(client):
    text = client.get("/trend/exact/points?suite=::test_sums").text

    assert [text.count(f'href="/runs/{run}"') for run in ("aaaa", "bbbb", "cccc", "dddd", "ffff")] == [2, 2, 2, 0, 0]
    assert "changed, proven" in text


def test_all_metrics_are_listed_with_their_experiments(client):
    text = client.get("/trend").text

    assert "/trend/exact?suite=test_sums.py%3A%3Atest_sums" in text
    assert "/trend/exact?suite=test_sums.py%3A%3Atest_others" in text
    assert f"/trend/{quote(ODD, safe='')}?" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text


def test_a_metric_with_slashes_and_scripts_in_its_name_has_a_page(client):
    name = quote(ODD, safe="")

    frame, points = client.get(f"/trend/{name}"), client.get(f"/trend/{name}/points")

    assert frame.status_code == 200
    assert "0.750" in points.text
    assert "<script>alert" not in frame.text + points.text


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/trend/exact/points", "metric 'exact' is in 2 experiments: choose one with --suite, such as"),
        ("/trend/nothing/points", "no finished run has scored 'nothing': `crucible runs` lists the runs"),
        ("/trend/exact/points?last=1", "last='1' is not a number of runs"),
        ("/trend/exact/points?alpha=x", "alpha='x' is not an error rate"),
    ],
)
def test_what_has_no_trend_is_a_sentence(client, address, sentence):
    response = client.get(address)

    assert response.status_code == 200
    assert sentence in words_of(response.text)


def test_the_form_leads_to_the_trend_with_its_choices(client):
    response = client.get("/trend?metric=a/b&last=&alpha=0.1", follow_redirects=False)

    assert response.headers["location"] == "/trend/a%2Fb?alpha=0.1"
