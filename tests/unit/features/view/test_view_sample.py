"""The page of one sample, as the server sends it."""

from __future__ import annotations

import contextlib
import html
import re
from contextlib import closing

import pytest
from hostile_texts import CONTROL, HOSTILE
from stored_replies import PAGE, RUN, store_replies

from pytest_crucible.commands.show import conversation_lines
from pytest_crucible.features.view.sample_texts import A_PART, shown_text, text_parts
from pytest_crucible.records import Outcome, Reply, Sample, Unit
from pytest_crucible.records.outcomes import ModelCall
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_sample
from tests.dashboard import dashboard_client

ANY = Unit(0, 0, 0, 0)


def page_text(page: str) -> str:
    """Return what a page shows, without markup."""
    return html.unescape(re.sub("<[^>]+>", " ", page[page.index("<main") :]))


@pytest.fixture
def get(tmp_path):
    """Stores replies and returns the page of the sample."""
    with contextlib.ExitStack() as stack:

        def get_page(*arms, path=PAGE, params=None, **facts):
            store = store_replies(tmp_path / "runs.db", *arms, **facts)
            return stack.enter_context(dashboard_client(store)).get(path, params=params)

        yield get_page


def test_arms_stand_side_by_side_with_their_state_scores_latency_and_tokens(get):
    failed = Outcome(ANY, failure="refused", reply=Reply(text="I cannot."), detail="I cannot.")
    lost = Outcome(ANY, lost="timeout", detail="no reply in 30 s")
    page = get(["Because."], [""], [failed], [lost])
    visible = page_text(page.text)

    assert page.status_code == 200
    assert re.findall(r'<h3 id="arm-\d">(\w+)', page.text) == ["v4", "v3", "v2", "v1"]
    assert "refused; I cannot." in visible
    assert "timeout; no reply in 30 s" in visible
    assert visible.count("0.250 s") == 2
    assert "3 input tokens, 2 output tokens" in visible
    assert re.search(r"right\s+True.*right\s+False", visible, re.DOTALL)


def test_the_page_has_all_that_the_terminal_prints_of_a_conversation(get, tmp_path):
    sample = Sample(id="q0", input="Why?\nReally?", expected={"a": 1}, metadata={"topic": "tea"}, group="g1")
    visible = page_text(get(["Because.\nSo."], ["No."], sample=sample).text)
    with closing(RunStore(str(tmp_path / "runs.db"))) as store:
        [(key, plan, _)] = store.all_experiments(RUN)
        stored, conversations = load_sample(store, plan.dataset_sha256, 0), load_conversations(store, key, plan, 0)
        lines = list(conversation_lines(plan.nodeid, stored, conversations, reasoning=True))

    words = {word for line in lines[1:] for word in re.findall(r"\w+", line)}
    assert {"Really", "tea", "Because", "So", "No", "answered", "True"} <= words
    assert words <= set(re.findall(r"\w+", visible))


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ("half", "nul")])
def test_a_hostile_reply_is_text(get, name):
    reply = HOSTILE[name][:1_000_000]
    page = get(
        [reply],
        ["<script>alert(1)</script>"],
        sample=Sample(id="<b>\x1b[2J\u202e", input=reply[:1_000], group=reply[:50]),
    ).text

    assert not CONTROL.search(page.replace("\r", ""))
    assert "<script>alert" not in page
    assert "<b>" not in page
    assert (
        html.unescape("".join(re.findall('<span class="part">(.*?)</span>', page, re.DOTALL))).count(shown_text(reply))
        >= 1
    )


@pytest.mark.parametrize("text", ["", "short", "line\n" * 5_000, "a" * 20_001, "ab\n" + "x" * 9_000])
def test_a_text_is_in_parts_that_join_to_it(text):
    parts = list(text_parts(text))

    assert "".join(parts) == text
    assert all(len(part) <= A_PART for part in parts)
    assert all(part.endswith("\n") for part in parts[:-1] if "\n" in part)


def test_a_text_beyond_the_room_says_how_much_is_left_out():
    assert shown_text("a" * 2_000_003).endswith("a... (3 characters more)")


@pytest.mark.parametrize("number", ["0", "2", "99999999999999999999", "x", "-1", "1" * 5_000])
def test_an_unknown_experiment_or_sample_is_not_found(get, number):
    for path in (f"/runs/{RUN}/samples/{number}/0", f"/runs/{RUN}/samples/1/{number if number != '0' else '1'}"):
        page = get(["a"], path=path)

        assert page.status_code == 404
        assert "has no such" in html.unescape(page.text)


@pytest.mark.parametrize("name", ["run", "self", "experiment", "position", "show", "variant", "draw"])
def test_an_address_with_unknown_state_shows_the_sample(get, name):
    page = get(["Because."], ["No."], params={name: "\x00999999999999999999"})

    assert page.status_code == 200
    assert "Because." in page.text


def test_a_repeat_is_chosen_by_the_address(get):
    page = get(["first", "second"], ["one", "two"], params={"draw": "1"})

    assert ">second</span>" in page.text
    assert ">first</span>" not in page.text
    assert 'id="reply-0-0-1"' in page.text
    assert page.text.count('aria-current="true"') == 2
    assert "/samples/1/0?draw=1" in page.text


def test_the_state_of_the_list_is_in_the_links_back_and_to_repeats(get):
    page = html.unescape(get(["a", "b"], ["c", "d"], params={"show": "worse", "search": "tea", "junk": "1"}).text)

    assert f'id="back" href="/runs/{RUN}/samples?show=worse&search=tea&experiment=1&at=0"' in page
    assert f"{PAGE}?show=worse&search=tea&draw=1" in page


def test_each_reply_can_be_read_as_text(get):
    assert get(["a", "b<c"], path=f"{PAGE}/text", params={"of": "reply-0-0-1"}).text == "b<c"


def test_an_unknown_reply_is_not_found(get):
    assert get(["a"], path=f"{PAGE}/text", params={"of": "reply-0-0-9"}).status_code == 404


def test_a_run_without_tracing_says_that_its_calls_are_unknown(get):
    page = get(["a"], settings={"trace": "off"})

    assert f"run {RUN} was recorded with --crucible-trace=off: its calls are unknown" in page.text


def test_where_the_prompt_was_not_recorded_the_input_of_the_sample_stands_above(get):
    call = ModelCall(text="Hi. Why?", is_json=False, request=1, parameters=None, system="", reply=Reply(text="a"))
    sample = Sample(id="q0", input="Why?")
    outcome = Outcome(ANY, reply=Reply(text="a"), calls=[call], sample=sample)
    page = page_text(get([outcome], sample=sample, settings={"trace": "off"}).text)

    assert re.search(r"Prompt\s+user\s+Why\?.*Replies.*user\s+\(not recorded\)", page, re.DOTALL)
    assert "Hi." not in page


def test_an_unfinished_run_shows_what_is_there(get):
    page = page_text(get(["a"], [], finished=False).text)

    assert "has not finished: this is what it has stored so far" in page
    assert " a " in page


def test_a_sample_without_a_reply_has_its_prompt(get):
    page = get([], [], finished=False)

    assert "Why?" in page.text
    assert "No arm has replied yet." in page.text


def test_commands_that_show_the_same_in_a_terminal_can_be_copied_and_name_no_path(get, tmp_path):
    page = html.unescape(get(["a"], sample=Sample(id="it's", input="?")).text)

    assert f"crucible trace {RUN} 'it'\"'\"'s'" in page
    assert str(tmp_path) not in page


def test_an_id_that_cannot_be_copied_has_no_command(get):
    assert "crucible trace" not in get(["a"], sample=Sample(id="a\x1bb", input="?")).text


def test_the_time_line_comes_from_provenance_and_is_absent_without_it(get):
    plugins = program_plugins()
    provenance = plugins.get_plugin("crucible-provenance")
    assert "Time line: v1" in get(["a"], path=f"{PAGE}/views").text

    plugins.unregister(provenance)
    try:
        part = get(["a"], path=f"{PAGE}/views")
    finally:
        plugins.register(provenance, "crucible-provenance")

    assert part.status_code == 200
    assert part.text.strip() == ""


def test_the_page_names_the_address_of_its_time_lines_where_there_are_replies(get):
    assert f'data-part="{PAGE}/views"' in get(["a"]).text


def test_a_sample_without_a_reply_has_no_time_line(get):
    assert "data-part" not in get([], finished=False).text
