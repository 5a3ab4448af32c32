"""The labels page: what it shows, what it takes, and in Chromium its keys."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from chromium import chromium
from dashboard_tabs import axe_violations, horizontal_overflow
from label_runs import RUN, store_labelled_run

from pytest_crucible.datasets.labels import read_label_table
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client, served_dashboard

PAGE = f"/runs/{RUN}/labels"
ORIGIN = {"origin": "http://127.0.0.1:8765"}


@pytest.fixture
def store(tmp_path):
    return store_labelled_run(tmp_path / "runs.db", [True, False, True, False], [True, True, False, False])


@pytest.fixture
def client(store, tmp_path):
    with dashboard_client(store, tmp_path / "labels.csv") as client:
        client.headers |= {**ORIGIN, "x-crucible-token": re.search('data-token="(.*?)"', client.get(PAGE).text)[1]}
        yield client


def post(client, label="good", note="", by="anna", headers=None, **changes):
    at = changes.pop("at", "1")
    reply = client.get(f"{PAGE}/reply", params={"by": "anna", "at": at}).json()
    body = {
        "by": by,
        "at": at,
        "id": reply.get("id", ""),
        "label": label,
        "note": note,
        "before": reply.get("label", ""),
    }
    return client.post(PAGE, json={**body, **changes}, headers=headers)


def test_a_reply_is_shown_without_arm_score_or_sample(client):
    reply = client.get(f"{PAGE}/reply", params={"by": "anna"}).json()

    assert reply.keys() == {"at", "left", "total", "label", "note", "id", "prompt", "sent", "expected", "reply"}
    assert reply["prompt"].startswith("What is")
    assert (reply["left"], reply["total"]) == (8, 8)
    assert "/samples" not in client.get(PAGE).text
    assert f'href="{PAGE}">Labels</a>' in client.get(f"/runs/{RUN}").text


def test_a_label_is_in_the_file_before_it_is_confirmed(client, tmp_path):
    response = post(client, note="\U0001f600 fine")

    (row,) = read_label_table(tmp_path / "labels.csv").rows
    assert response.json() == {"left": 7, "next": 2}
    assert (row["anna"], row["anna note"], row["run"]) == ("good", "\U0001f600 fine", RUN)
    assert client.get(f"{PAGE}/reply", params={"by": "anna", "at": "1"}).json()["label"] == "good"


def test_two_people_have_two_columns_and_their_own_count(client, tmp_path):
    post(client)
    post(client, "poor", by="ben", before="")

    (row,) = read_label_table(tmp_path / "labels.csv").rows
    assert (row["anna"], row["ben"]) == ("good", "poor")
    assert client.get(f"{PAGE}/reply", params={"by": "ben"}).json()["left"] == 7


def test_a_label_is_taken_back(client, tmp_path):
    post(client)

    assert post(client, "").json() == {"left": 8, "next": 1}
    assert read_label_table(tmp_path / "labels.csv").rows[0]["anna"] == ""


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"label": "excellent"}, "'excellent' is not a label: the labels are good, poor, skip"),
        ({"at": "9"}, "there is no reply '9'"),
        ({"at": "²"}, "there is no reply"),
        ({"id": "0"}, "this reply is not at its place any more"),
        ({"note": "x" * 4_001}, "the note has 4,001 characters"),
        ({"note": "\u0001" * 20_000}, "a label takes at most 64,000 bytes"),
        ({"by": "=cmd"}, "cannot name a column"),
        ({"before": None}, "a label is a JSON object"),
    ],
)
def test_an_invalid_label_is_refused_in_one_sentence_and_nothing_is_written(client, tmp_path, changes, sentence):
    before = (tmp_path / "labels.csv").read_bytes()

    response = post(client, **changes)

    assert response.status_code == 422
    assert sentence in response.json()["error"]
    assert (tmp_path / "labels.csv").read_bytes() == before


@pytest.mark.parametrize(
    "headers", [{"x-crucible-token": "guessed"}, {"origin": "http://evil.example"}, {"origin": ""}]
)
def test_a_request_from_elsewhere_is_refused(client, tmp_path, headers):
    assert post(client, headers=headers).status_code == 403
    assert not read_label_table(tmp_path / "labels.csv").rows


def test_a_tab_that_is_behind_does_not_overwrite(client, tmp_path):
    post(client)

    response = post(client, "poor", before="")

    assert response.status_code == 409
    assert response.json()["label"] == "good"
    assert read_label_table(tmp_path / "labels.csv").rows[0]["anna"] == "good"


def test_a_run_that_was_removed_is_one_sentence(client, store):
    client.get(f"{PAGE}/reply", params={"by": "anna"})
    with closing(RunStore(str(store))) as opened:
        opened.execute("DELETE FROM replies")

    response = client.get(f"{PAGE}/reply", params={"by": "anna"})
    assert (response.status_code, response.json()) == (422, {"error": f"run {RUN} was removed from this store"})


def test_without_the_option_there_is_no_labels_page(store):
    with dashboard_client(store) as client:
        assert client.get(f"{PAGE}/reply").status_code == 422


class TestKeys:
    """Chromium presses them."""

    def test_labels_a_note_undo_and_the_back_button(self, store, tmp_path):
        messages = []
        with chromium() as browser, served_dashboard(store, tmp_path / "labels.csv") as (address, token):
            page = browser.new_page()
            page.on("console", lambda message: messages.append(message.text))
            page.goto(f"{address}{PAGE}?token={token}")
            page.wait_for_url(re.compile("at=1$"))
            for key in ("n", "t", "o", "o", "Escape"):
                page.keyboard.press(key)
            page.keyboard.press("g")
            page.wait_for_url(re.compile("at=2$"))
            page.keyboard.press("2")
            page.wait_for_url(re.compile("at=3$"))
            page.keyboard.press("u")
            page.wait_for_url(re.compile("at=2$"))
            page.locator("#message", has_text="taken back").wait_for(state="attached")
            page.keyboard.press("k")
            page.wait_for_url(re.compile("at=1$"))
            note, pressed = page.input_value("textarea"), page.get_attribute("button[value=good]", "aria-pressed")
            page.go_back()
            page.wait_for_url(re.compile("at=2$"))
            left = page.text_content("#left")

        first, second = read_label_table(tmp_path / "labels.csv").rows
        assert (first["anna"], first["anna note"], second["anna"]) == ("good", "too", "")
        assert (note, pressed, left) == ("too", "true", "7 of 8 left")
        assert messages == []

    def test_axe_finds_nothing_and_the_page_fits_a_phone(self, store, tmp_path):
        with chromium() as browser, served_dashboard(store, tmp_path / "labels.csv") as (address, token):
            page = browser.new_context(bypass_csp=True, viewport={"width": 360, "height": 800}).new_page()
            page.goto(f"{address}{PAGE}?token={token}")
            page.wait_for_url(re.compile("at=1$"))

            assert axe_violations(page) == []
            assert horizontal_overflow(page) == []

    def test_an_error_keeps_what_was_typed(self, store, tmp_path):
        with chromium() as browser, served_dashboard(store, tmp_path / "labels.csv") as (address, token):
            page = browser.new_page()
            page.goto(f"{address}{PAGE}?token={token}")
            page.wait_for_url(re.compile("at=1$"))
            (tmp_path / "labels.csv").write_text("another,table\n")
            page.fill("textarea", "a long note")
            page.click("button[value=poor]")
            page.wait_for_selector("#error:not([hidden])")

            assert "is not a file of labels" in page.text_content("#error")
            assert page.input_value("textarea") == "a long note"
            page.context.clear_cookies()
            page.click("button[value=poor]")
            page.locator("#error", has_text=re.compile("^open the link")).wait_for()
            assert page.input_value("textarea") == "a long note"
