"""The page of a finished run: its frame at once, then the numbers of the terminal and why each verdict is as it is."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from experiment_builders import store_run

from pytest_crucible.cli import main
from pytest_crucible.features.view.pages import respond
from pytest_crucible.features.view.run_results import render_results
from pytest_crucible.features.view.site import Site
from pytest_crucible.records import Contrast, Sample, Target
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.history import add_tag
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client

HOSTILE = "<script>alert(1)</script>"
SAMPLES = [Sample(id=HOSTILE if k == 45 else f"q{k:02}", input=f"question {k}", expected="yes") for k in range(60)]
OURS, THEIRS = [True] * 35 + [False] * 25, [True] * 12 + [False] * 33 + [True] * 15
NUMBER = re.compile(r"\d[\d,]*\.\d+(?:e-?\d+)?")


def enter_run(store: RunStore, run: str, *, interrupted: bool = False) -> None:
    claims = {
        "targets": (Target(metric="exact", relation=">=", value=0.5, text="exact >= 0.50"),),
        "contrasts": (Contrast(metric="exact", baseline="v1"),),
    }
    store_run(store, run, SAMPLES, v2=OURS, v1=THEIRS, **claims)
    conclude(store, run, alpha=0.05, strict=False, interrupted=interrupted, amend=lambda verdict: None)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    store = RunStore(str(path))
    enter_run(store, "aaaa1111")
    for tag in ("main", "release/2.1"):
        add_tag(store, "aaaa1111", tag, at="2026-01-01")
    enter_run(store, "bbbb2222", interrupted=True)
    enter_run(store, "cccc3333")
    enter_run(store, "dddd4444")
    store.execute("UPDATE runs SET status = 'running', finished = NULL WHERE id = 'dddd4444'")
    store.execute("UPDATE runs SET alpha = 'broken' WHERE id = 'cccc3333'")
    store.close()
    return path


@pytest.fixture(scope="module")
def results(client):
    return client.get("/runs/aaaa1111/results").text


@pytest.fixture(scope="module")
def explanations(client):
    return client.get("/runs/aaaa1111/explanations").text


def words_of(html: str) -> str:
    """The text of a page without its pictures, whose axes have numbers of their own, and without references."""
    html = re.sub(r'<svg.*?</svg>|<ol class="references">.*?</ol>', " ", html, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", html)
    # Blanks and signs that align numbers.
    return " ".join(text.replace("\u2007", "").replace("\u2008", "").replace("\u2212", "-").split())


def printed_by(capsys, *arguments: str) -> str:
    main([*arguments])
    return capsys.readouterr().out


def test_every_number_is_one_that_the_terminal_prints(path, results, explanations, capsys, tmp_path):
    store = f"--store={path}"
    subjects = ("exact >= 0.50", "exact: v2 vs v1")
    printed = printed_by(capsys, "show", "aaaa1111", "-vv", store) + "".join(
        printed_by(capsys, "why", "aaaa1111", subject, store) for subject in subjects
    )
    # The result in plain words is that of reports.
    printed_by(capsys, "report", "aaaa1111", "-o", f"{tmp_path}/report.md", "-o", f"{tmp_path}/report.json", store)
    printed += "".join(file.read_text() for file in tmp_path.iterdir())

    numbers = set(NUMBER.findall(words_of(results) + words_of(explanations)))

    assert len(numbers) > 15
    assert {number for number in numbers if number not in printed} == set()


def test_every_number_of_the_terminal_is_on_the_page(path, results, explanations, capsys):
    printed = printed_by(capsys, "show", "aaaa1111", "-v", f"--store={path}")
    # Each comparison's own p-values are for the terminal, which has no table of claims.
    table = printed.partition("metric  ")[0]

    text = words_of(results) + words_of(explanations)

    assert len(set(NUMBER.findall(table))) > 5
    assert {number for number in NUMBER.findall(table) if number not in text} == set()


def test_the_explanation_of_a_verdict_has_the_lines_of_crucible_why(path, explanations, capsys):
    printed = printed_by(capsys, "why", "aaaa1111", "exact: v2 vs v1", f"--store={path}")
    lines = [" ".join(line[11:].split()) for line in printed.splitlines()[2:]]

    text = words_of(explanations).replace("&gt;", ">").replace("&#39;", "'").replace("&lt;", "<")

    assert len(lines) >= 6
    assert [line for line in lines if line not in text] == []


def test_explanations_are_absent_where_no_plugin_has_any(path):
    plugins = program_plugins()
    name, provenance = next(
        (name, plugin)
        for name, plugin in plugins.list_name_plugin()
        if hasattr(plugin, "pytest_crucible_verdict_views")
    )
    plugins.unregister(provenance)
    try:
        with open_for_reading(str(path), "view") as store:
            html = render_results(Site(store), "aaaa1111")
    finally:
        plugins.register(provenance, name)

    assert "exact: v2 vs v1" in html
    assert "<summary>Why" not in html


def test_the_frame_has_stored_counts_and_waits_for_no_analysis(client):
    # Its analysis raises: the frame has been sent by then.
    page = client.get("/runs/cccc3333").text

    assert "<h1>Run cccc3333</h1>" in page
    assert "v2 vs v1" in page
    assert ">60<" in page
    assert re.search(r"\d (met|missed)", page)


def test_an_analysis_that_raises_is_a_sentence(client):
    for part in ("results", "explanations"):
        response = client.get(f"/runs/cccc3333/{part}")

        assert response.status_code == 200
        assert 'class="failure"' in response.text
        assert "cannot be computed" in response.text
        assert "Traceback" not in response.text


def test_an_unfinished_run_has_no_results(client):
    for part in ("results", "explanations"):
        text = client.get(f"/runs/dddd4444/{part}").text

        assert "run dddd4444 has not ended" in text
        assert "[" not in text
    assert "results.js" not in client.get("/runs/dddd4444").text


def test_an_interrupted_run_has_the_verdicts_that_show_prints(path, client, capsys):
    printed = printed_by(capsys, "show", "bbbb2222", f"--store={path}")
    text = words_of(client.get("/runs/bbbb2222/results").text)

    assert "Computing the results" in client.get("/runs/bbbb2222").text
    for state in ("met", "missed", "undecided"):
        assert (f" {state}" in printed) == (f" {state}" in text.partition("Differences")[0]), state


def test_a_tag_with_slashes_leads_to_its_run(client):
    assert client.get("/runs/tag:release/2.1").url.path == "/runs/aaaa1111"


@pytest.mark.parametrize("named", ["aaaa", "tag:main"])
def test_other_names_of_a_run_lead_to_its_full_id(client, named):
    response = client.get(f"/runs/{named}?open=1")

    assert response.url.path == "/runs/aaaa1111"
    assert response.url.query == b"open=1"


def test_each_verdict_and_excerpt_links_to_its_samples(client, results):
    links = re.findall(r'href="(/runs/aaaa1111/samples[^"]*)"', results)
    lists = [link.replace("&amp;", "&") for link in links if "?" in link]

    assert any("show=worse" in link and "metric=exact" in link and "baseline=1" in link for link in lists)
    assert any(re.fullmatch(r"/runs/aaaa1111/samples/1/\d+", link) for link in links)
    for link in lists:
        assert client.get(link).status_code == 200


def test_texts_of_a_store_are_inert(results):
    assert "alert(1)" in results
    assert HOSTILE not in results


def test_two_tabs_that_ask_at_once_share_one_analysis(path):
    calls = []
    with open_for_reading(str(path), "view") as store:
        site = Site(store)

        def compute() -> str:
            calls.append(1)
            return "html"

        with ThreadPoolExecutor(8) as tabs:
            futures = list(tabs.map(lambda _: site.results.start("key", compute), range(8)))

        assert [future.result() for future in futures] == ["html"] * 8
    assert len(calls) == 1


def test_the_results_of_a_run_do_not_wait_for_the_explanations_of_another(path, monkeypatch):
    released = threading.Event()

    def compute(function: str, *_: object) -> str:
        if function.endswith("render_explanations"):
            released.wait(20)
        return function

    monkeypatch.setattr(respond, "compute_apart", compute)
    with dashboard_client(path) as client, ThreadPoolExecutor(1) as tab:
        explained = tab.submit(client.get, "/runs/aaaa1111/explanations")
        try:
            assert "render_results" in client.get("/runs/bbbb2222/results").text
            assert not explained.done()
        finally:
            released.set()
