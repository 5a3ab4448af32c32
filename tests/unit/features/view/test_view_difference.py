"""Word differences, in Chromium: of two texts, and of two replies on the page of a sample."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from stored_replies import PAGE, store_replies

from tests.dashboard import served_dashboard
from tests.hostile_texts import HOSTILE

COMPARE = """async ([before, after, steps]) => {
    const { compareTexts } = await import("/assets/word_difference.js");
    const difference = compareTexts(before, after, steps ?? undefined);
    return { ...difference, spans: [...difference.spans] };
}"""
KEPT, DELETED, INSERTED = 0, 1, 2
# Words, blanks, signs, writing without blanks, and characters of two halves or of several parts.
PARTS = (
    "a",
    "b",
    "ab",
    "é",
    "e\u0301",
    " ",
    "  ",
    "\n",
    ".",
    "-",
    "漢",
    "字",
    "ไทย",
    "한",
    "\U0001f600",
    "\u200d",
    "\\x1b",
)
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)
MANY = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory, browser) -> Iterator[Any]:
    """A tab with the cookie of a dashboard, whose address is its `base`."""
    path = tmp_path_factory.mktemp("difference") / "runs.db"
    store_replies(path, ["The cat sat.\nIt slept.", "again"], ["The dog sat.\nIt slept well.", "again"], samples=3)
    with served_dashboard(path) as (address, token):
        page = browser.new_page()
        page.goto(f"{address}/?token={token}")
        page.base = address
        yield page


@pytest.fixture
def page(opened) -> Any:
    opened.goto(opened.base + PAGE)
    return opened


def compare(page: Any, before: str, after: str, steps: int | None = None) -> dict[str, Any]:
    difference: dict[str, Any] = page.evaluate(COMPARE, [before, after, steps])
    return difference


def text_of(difference: dict[str, Any], kinds: tuple[int, ...], before: str, after: str) -> str:
    """Return the spans of some kinds. JavaScript counts the halves of a character."""
    spans, halves = difference["spans"], {False: before.encode("utf-16-le"), True: after.encode("utf-16-le")}
    rows = zip(spans[::3], spans[1::3], spans[2::3], strict=True)
    parts = (halves[kind == INSERTED][2 * start : 2 * end] for kind, start, end in rows if kind in kinds)
    return b"".join(parts).decode("utf-16-le")


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def longest_common(before: list[str], after: list[str]) -> int:
    row = [0] * (len(after) + 1)
    for word in before:
        diagonal = 0
        for place, other in enumerate(after, start=1):
            diagonal, row[place] = row[place], diagonal + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]


@MANY
@example("a b", "a  b", None)
@example("", " a", None)
@example("ab", "", None)
@given(TEXTS, TEXTS, st.sampled_from([None, 10]))
def test_both_texts_are_rebuilt_from_what_was_kept_deleted_and_inserted(opened, before, after, steps):
    difference = compare(opened, before, after, steps)

    assert text_of(difference, (KEPT, DELETED), before, after) == before
    assert text_of(difference, (KEPT, INSERTED), before, after) == after


@MANY
@given(*[st.lists(st.sampled_from(["a", "b", "c", "d", "."]), max_size=12)] * 2)
def test_no_shorter_list_of_changes_exists(opened, before, after):
    difference = compare(opened, " ".join(before), " ".join(after))

    assert difference["isShortest"]
    assert difference["words"]["kept"] == longest_common(before, after)


@given(st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_after_a_bounded_number_of_steps_texts_are_rebuilt_all_the_same(opened, seed):
    draw = random.Random(seed)
    before, after = (" ".join(draw.choices("abc", k=2_000)) for _ in range(2))
    difference = compare(opened, before, after, 5_000)

    assert not difference["isShortest"]
    assert text_of(difference, (KEPT, INSERTED), before, after) == after


def test_words_that_only_one_text_has_cost_no_step(opened):
    before, after = (" ".join(f"{letter}{number}" for number in range(5_000)) for letter in "ab")

    assert compare(opened, before, after, 10) == {
        "spans": [DELETED, 0, len(before), INSERTED, 0, len(after)],
        "words": {"kept": 0, "deleted": 5_000, "inserted": 5_000},
        "hasLittle": True,
        "isShortest": True,
    }


def test_long_texts_that_share_a_few_words_by_chance_are_deleted_and_inserted_as_a_whole(opened):
    draw = random.Random(0)
    before, after = ("".join(chr(0x4E00 + draw.randrange(4_000)) for _ in range(5_000)) for _ in range(2))
    difference = compare(opened, before, after, 20_000)

    assert difference["spans"] == [DELETED, 0, 5_000, INSERTED, 0, 5_000]
    assert difference["words"] == {"kept": 0, "deleted": 5_000, "inserted": 5_000}
    assert difference["hasLittle"]
    assert not difference["isShortest"]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "many"), [(0xE01, 58), (0x3041, 80)], ids=["Thai", "Japanese"])
def test_very_long_texts_in_few_characters_share_only_what_is_in_a_row(opened, first, many):
    draw = random.Random(1)
    before, after = ("".join(chr(first + int(many ** draw.random())) for _ in range(330_000)) for _ in range(2))

    assert compare(opened, before, after)["spans"] == [DELETED, 0, 330_000, INSERTED, 0, 330_000]
    assert compare(opened, before, before[:200_000] + after[200_000:])["words"]["kept"] >= 200_000


def test_a_changed_word_keeps_the_blanks_around_it(opened):
    difference = compare(opened, "one two three", "one four three")

    assert text_of(difference, (DELETED,), "one two three", "one four three") == " two"
    assert difference["words"] == {"kept": 2, "deleted": 1, "inserted": 1}


def test_chinese_is_compared_by_word(opened):
    assert compare(opened, "我喜欢学习数学", "我喜欢学习物理")["words"] == {"kept": 3, "deleted": 1, "inserted": 1}


def test_thai_and_japanese_are_rebuilt_where_they_are_too_long_to_be_segmented(opened):
    before = "ภาษาไทยไม่มีช่องว่าง" * 200 + "これは文です。" * 500
    after = before[:3_000] + "字\U00020000" + before[3_010:]
    difference = compare(opened, before, after)

    assert text_of(difference, (KEPT, DELETED), before, after) == before
    assert text_of(difference, (KEPT, INSERTED), before, after) == after
    assert difference["words"] == {"kept": len(before) - 10, "deleted": 10, "inserted": 2}


def wait_until_drawn(page: Any) -> None:
    page.wait_for_selector("#difference[data-state=done]", state="attached")


DRAW = """async ([before, after]) => {
    const { Comparison } = await import("/assets/difference.js");
    const { compareTexts } = await import("/assets/word_difference.js");
    const output = Object.assign(document.createElement("pre"), { dir: "auto" }), comparing = [];
    document.body.append(output);
    const view = Object.assign(Object.create(Comparison.prototype), { output, comparing, status: document.createElement("p") });
    await view.draw(comparing, [before, after], compareTexts(before, after));
    return [getComputedStyle(output).direction, output.children.length > 2];
}"""


@pytest.mark.parametrize(("letter", "direction"), [("\u05d0", "rtl"), ("a", "ltr"), ("\U0001f600", "ltr")])
def test_a_long_difference_runs_as_its_first_letter_does(page, letter, direction):
    text = f"{letter} 1. " * 2_000

    assert page.evaluate(DRAW, [text, text + letter]) == [direction, True]


def test_a_key_compares_the_first_replies_of_candidate_and_baseline(page):
    page.keyboard.press("d")
    wait_until_drawn(page)
    output = page.locator("#difference")

    assert output.locator("del").all_text_contents() == [" dog", " well"]
    assert output.locator("ins").all_text_contents() == [" cat"]
    assert (
        page.locator("[role=status]")
        .inner_text()
        .startswith("2 words deleted (struck out), 1 word inserted (underlined)")
    )
    page.keyboard.press("d")
    assert output.is_hidden()
    assert "compare" not in page.url


def test_the_texts_are_chosen_by_lists_and_the_address_opens_them_again(page):
    first, second = page.locator("#comparison select").all()
    first.select_option(label="v2, repeat 2")
    wait_until_drawn(page)
    second.select_option(label="v1, repeat 2")
    page.get_by_text("The two texts are equal.").wait_for()
    page.reload()
    wait_until_drawn(page)

    assert page.locator("#comparison [role=status]").inner_text() == "The two texts are equal."
    assert page.locator("#difference").inner_text() == "again"
    assert page.locator("#comparison select").first.input_value() == "reply-0-0-1"


def test_keys_lead_to_the_next_sample_and_back_with_the_comparison_open(page):
    page.keyboard.press("d")
    wait_until_drawn(page)
    page.get_by_role("link", name="Next").wait_for()
    page.keyboard.press("j")
    page.wait_for_url("**/samples/1/1*")
    wait_until_drawn(page)
    page.get_by_role("link", name="Previous").wait_for()
    assert "2 of 3" in page.locator("#neighbours").inner_text()
    page.keyboard.press("k")
    page.wait_for_url("**/samples/1/0*")
    page.keyboard.press("Escape")
    page.wait_for_url("**/samples?*at=0*")


@pytest.fixture(scope="module")
def tab(tmp_path_factory, browser) -> Iterator[Any]:
    """A tab for replies of a megabyte, and for replies that would run if they could."""
    path = tmp_path_factory.mktemp("hostile") / "runs.db"
    draw = random.Random(1)
    unlike = [" ".join(f"{letter}{draw.randrange(10_000)}" for _ in range(160_000)) for letter in "ab"]
    live = '<svg onload="alert(1)"><script>fetch("http://evil.example/")</script></svg>' + "".join(
        HOSTILE[name] for name in ("html", "ansi", "bidi", "controls", "return")
    )
    store_replies(
        path, [live, unlike[0], "[" * 10_000], ["<img src=http://evil.example/ onerror=alert(1)>", unlike[1], "]"]
    )
    with served_dashboard(path) as (address, token):
        tab = browser.new_page()
        tab.goto(f"{address}/?token={token}")
        tab.base = address
        yield tab


def test_a_hostile_reply_neither_runs_nor_asks_elsewhere(tab):
    events: list[str] = []
    tab.on("console", lambda message: events.append(message.text))
    tab.on("dialog", lambda dialog: (events.append("dialog"), dialog.dismiss()))
    tab.on("request", lambda request: events.append(request.url) if not request.url.startswith(tab.base) else None)
    tab.goto(tab.base + PAGE)
    tab.keyboard.press("d")
    wait_until_drawn(tab)

    assert events == []
    assert tab.locator("main pre svg, main pre script, main pre img").count() == 0
    assert "\\x1b[31mred" in tab.locator("#difference").text_content()
    assert "\\u202e" in tab.locator("#difference").text_content()


def test_two_megabytes_without_a_common_word_are_drawn_whole(tab):
    tab.goto(f"{tab.base}{PAGE}?draw=1&compare=reply-0-1-1~reply-0-0-1")
    wait_until_drawn(tab)
    lengths = tab.evaluate(
        """() => ["reply-0-1-1", "reply-0-0-1"].map((id) => document.getElementById(id).textContent.length)"""
    )

    assert (
        tab.locator("#comparison [role=status]")
        .inner_text()
        .startswith("The texts have little in common: 160,000 words")
    )
    assert tab.evaluate("document.querySelector('#difference').textContent.length") == sum(lengths)
    assert tab.locator("#difference > .part").count() > 100


def test_what_was_opened_is_open_again_at_the_same_address(page):
    has_views = page.locator("[data-part][aria-busy=false] h2", has_text="Time line").last
    has_views.wait_for()
    page.locator("summary", has_text="expected").click()
    page.wait_for_url("**open=0*")
    page.reload()
    has_views.wait_for()

    assert page.locator("main details").first.get_attribute("open") is None
    assert page.locator("main details[open]").count() == 1
