"""The HTML report in a real browser: it is read, filtered and printed, and nothing that a model wrote runs in it."""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.cli import main
from pytest_crucible.report import html

HOSTILE = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'></script><!--"
SUITE = {
    "pytest.ini": "[pytest]\n",
    "crucible.toml": """
        [adapters.v2]
        backend = "scripted"
        script = "answers:v2"
        latency_s = 0.002

        [adapters.v1]
        backend = "scripted"
        script = "answers:v1"
    """,
    "answers.py": r'''
        def v2(request):
            k = int(request.sample.split("-")[1])
            said = {
                3: "HOSTILE", 4: "x" * 1_000_000, 5: "\u202eevil \u0645\u0631\u062d\u0628\u0627", 6: "\x1b[31mred \U0001f600 done"
            }
            return said.get(k, "yes" if k % 5 else "no")

        def v1(request):
            return "no" if int(request.sample.split("-")[1]) % 7 == 0 else "yes"
    ''',
    "test_words.py": """
        import pytest
        from pytest_crucible import metric

        @metric(bounds=(0, 10))
        def length(reply, sample):
            return min(10.0, float(len(reply.text)))

        def rows():
            for k in range(130):
                group = ("odd", "even", "<b>third</b>")[k % 3]
                yield {"id": f"s-{k}", "input": f"question {k} <i>?</i>", "expected": "yes", "group": group}

        @pytest.mark.crucible(dataset=rows, metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.7")
        @pytest.mark.ab_compare("exact_match")
        async def test_words(sample, sampler):
            return await sampler.generate(sample.input)

        @pytest.mark.crucible(dataset=rows, metrics=[length])
        @pytest.mark.ab_compare("length", margin=0.5)
        async def test_length(sample, sampler):
            return await sampler.generate(sample.input)
    """,
}  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, python: str) -> Path:
    """A page with hostile replies, of a run of two experiments."""
    folder = tmp_path_factory.mktemp("suite")
    for name, text in SUITE.items():
        (folder / name).write_text(textwrap.dedent(text).replace("HOSTILE", HOSTILE), encoding="utf-8")
    command = [python, "-m", "pytest", "-q", "--crucible-adapter=v2", "--compare=v1", "--crucible-report=run.html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (folder / "run.html").exists(), done.stdout + done.stderr
    return folder / "run.html"


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Any]:
    """Opens the page in a window of that kind. Whatever it complains of fails the test."""
    complaints: list[str] = []
    requests: list[str] = []
    pages: list[Any] = []

    def open_page(path: Path = report, **window: Any) -> Any:
        page = browser.new_page(**window)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.locator(".explorer .item").first.wait_for()
        return page

    yield open_page
    for page in pages:
        assert page.evaluate("window.pwned") is None
        page.close()
    assert complaints == []
    assert {url.partition(":")[0] for url in requests} <= {"file", "data", "blob"}


@pytest.fixture
def cut(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same run on a page that has no room for the texts of all its samples."""
    monkeypatch.setattr(html, "PART", 20)
    monkeypatch.setattr(html, "ROOM", 1)
    page = tmp_path / "cut.html"
    assert main(["report", f"--store={report.parent / '.crucible' / 'crucible.db'}", "-o", str(page)]) == 0
    return page


def test_a_page_without_room_for_all_texts_says_which_it_has(opened, cut):
    page = opened(path=cut)
    explorer, expect = first(page), pytest.importorskip("playwright.sync_api").expect

    note = page.locator("article .note", has_text="have their prompts and replies").first.inner_text()
    assert note.startswith(
        "20 of 130 samples have their prompts and replies in this page: the worst, the slowest, a draw "
    )
    assert "--what replies -o replies.csv writes all of them." in note
    assert count(page).inner_text() == "130 of 130 samples"
    explorer.get_by_label("search").fill("question")
    expect(count(page)).to_have_text("20 of 130 samples; prompts and replies of 20 were searched")
    explorer.get_by_label("search").fill("s-129")
    expect(count(page)).to_have_text("1 of 130 samples; prompts and replies of 20 were searched")
    explorer.get_by_label("search").fill("")
    explorer.get_by_label("show").select_option(label="with prompt and replies")
    expect(count(page)).to_have_text("20 of 130 samples")
    there = explorer.locator(".item code").all_inner_texts()
    explorer.locator(".item").first.click()
    requests = re.compile(rf"question {there[0].removeprefix('s-')} ")
    expect(explorer.locator(".list .sides pre").first).to_have_text(requests)
    explorer.get_by_label("show").select_option(label="all")
    absent = next(f"s-{k}" for k in range(50) if f"s-{k}" not in there)
    explorer.locator(".item", has=page.get_by_text(absent, exact=True)).click()
    expect(explorer.locator(".list .sides pre")).to_have_text(["(not in this page)"] * 3)


def first(page: Any) -> Any:
    return page.locator(".explorer").first


def count(page: Any) -> Any:
    return first(page).locator(".count")


def test_verdicts_are_in_landmarks_of_a_screen_reader(opened):
    page = opened()

    assert page.get_by_role("heading", level=1).inner_text().startswith("? ")
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(landmark).count() == 1
    sections = page.get_by_role("region").all()
    assert len(sections) >= 6
    rows = page.get_by_role("table", name="Verdicts by comparison").get_by_role("row")
    assert rows.count() == 5  # two under the names of their experiments, and the head
    assert page.locator("section#differences svg[role=img] title").count() == 2
    names = [select.get_attribute("aria-label") for select in first(page).locator("select").all()]
    assert names == ["show", "by", "order", "group"]


def test_each_row_of_a_sample_begins_with_its_question_and_reply(opened):
    page = opened()
    explorer = first(page)
    row = explorer.locator(".item").first
    row.locator(".excerpt", has_text="\u2192").wait_for()
    panel = page.locator("details.reading summary .excerpt").first.inner_text()

    assert 0 < len(row.locator(".excerpt").inner_text()) <= 250
    assert panel
    heading = page.locator("h1").inner_text()
    assert re.search(r"v2 (is|did) (better|worse) than v1|comparisons", heading), heading
    assert heading.endswith(".")


def test_the_page_works_by_keyboard_alone(opened):
    page = opened()

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdicts"
    page.keyboard.press("Enter")
    assert page.url.endswith("#verdicts")
    item = first(page).locator(".item").nth(1)
    item.focus()
    page.keyboard.press("Enter")
    first(page).locator(".list .sides").wait_for()
    assert item.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert first(page).locator(".list .sides").count() == 0


def test_samples_are_filtered_sorted_searched_and_paged(opened):
    page = opened()
    explorer = first(page)

    assert count(page).inner_text() == "130 of 130 samples"
    assert explorer.locator(".item").count() == 50
    explorer.get_by_role("button", name="Next").click()
    assert explorer.locator(".item code").first.inner_text() == "s-50"
    explorer.get_by_label("show").select_option(label="v2 better")
    assert count(page).inner_text() == "15 of 130 samples"  # multiples of 7 that v2 answers
    explorer.get_by_label("group").select_option(label="<b>third</b>")
    assert count(page).inner_text() == "5 of 130 samples"
    explorer.get_by_label("show").select_option(label="all")
    explorer.get_by_label("group").select_option(label="all")
    explorer.get_by_label("order").select_option(label="most lost first")
    assert explorer.locator(".item .worse").count() == 25  # v2 is wrong on 29, of which v1 is wrong on 4
    explorer.get_by_label("search").fill("QUESTION 129")
    explorer.locator(".item code", has_text="s-129").wait_for()
    assert count(page).inner_text() == "1 of 130 samples"
    assert explorer.locator(".item code").inner_text() == "s-129"


@pytest.mark.parametrize(
    ("sample", "text"),
    [("s-3", HOSTILE), ("s-4", "characters more)"), ("s-5", "\\u202eevil مرحبا"), ("s-6", "\\x1b[31mred 😀 done")],
    ids=["script", "a megabyte", "right to left", "colours"],
)
def test_hostile_replies_are_shown_as_they_are(opened, sample, text):
    page = opened()

    first(page).locator(".item", has=page.get_by_text(sample, exact=True)).click()
    sides = first(page).locator(".list .sides")
    sides.wait_for()
    assert text in sides.inner_text()
    assert "<i>?</i>" in sides.inner_text()
    assert sides.locator("script, img, i").count() == 0


def test_a_page_of_hostile_megabytes_stays_small(report):
    assert report.stat().st_size < 400_000


def test_nothing_overflows_on_a_telephone(opened):
    page = opened(viewport={"width": 360, "height": 700})

    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for k in (3, 4, 5):
        first(page).locator(".item").nth(k).click()
    first(page).locator(".list .sides").nth(2).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_page_follows_the_dark_colour_scheme(opened):
    colours = [
        opened(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]

    assert colours == ["rgb(253, 253, 252)", "rgb(21, 24, 28)"]


def test_printed_pages_have_no_buttons(opened):
    page = opened()

    page.emulate_media(media="print")
    assert not first(page).is_visible()
    assert page.locator("#verdicts table").first.is_visible()
    assert len(page.pdf()) > 10_000


def test_the_samples_of_a_folded_experiment_are_read_when_it_is_opened(browser, tmp_path, python):
    for name, text in SUITE.items():
        whole = textwrap.dedent(text).replace("HOSTILE", HOSTILE)
        many = "pytestmark = pytest.mark.parametrize('part', [1, 2])\n\n@metric("
        (tmp_path / name).write_text(
            whole.replace("@metric(", many).replace("sampler)", "sampler, part)"), encoding="utf-8"
        )
    command = [python, "-m", "pytest", "-q", "--crucible-adapter=v2", "--crucible-report=run.html"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    page = browser.new_page()
    page.goto((tmp_path / "run.html").as_uri())

    assert page.locator(".item").count() == 0
    page.locator(".scene > summary").nth(2).click()
    page.locator(".item").first.wait_for()
    assert page.locator(".explorer:has(.item)").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.close()
