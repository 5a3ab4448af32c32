"""Keys of the dashboard's pages, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_crucible.store.runs import RunStore
from tests.chromium import chromium
from tests.dashboard import served_dashboard

REGISTER = """async () => {
    const { registerKey } = await import("/assets/keys.js");
    window.pressed = [];
    for (const key of ["j", "/", "d", "Enter", "Escape"]) registerKey(key, `press ${key}`, () => window.pressed.push(key));
    document.querySelector("main").innerHTML = '<input aria-label="text"><a href="#main">link</a>';
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("keys") / "runs.db"
    RunStore(str(path)).close()
    with served_dashboard(path) as (address, token), chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/?token={token}")
        yield page


@pytest.fixture(autouse=True)
def _registered(page):
    page.reload()
    page.evaluate(REGISTER)


def press(page: Any, **event: Any) -> None:
    """Press a key as a layout names it, on the element with the focus."""
    created = "new KeyboardEvent('keydown', {bubbles: true, cancelable: true, ...event})"
    page.evaluate(f"event => document.activeElement.dispatchEvent({created})", event)


def pressed_keys(page: Any) -> list[str]:
    keys: list[str] = page.evaluate("pressed")
    return keys


def test_a_dialog_lists_the_keys_and_gives_the_focus_back(page):
    page.get_by_role("link", name="link").focus()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys of this page")

    assert "press Enter" in dialog.inner_text()
    assert "Esc" in dialog.inner_text()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    assert dialog.count() == 0
    assert page.evaluate("document.activeElement.textContent") == "link"
    assert pressed_keys(page) == []


def test_the_footer_opens_the_dialog(page):
    page.get_by_role("button", name="Keys: ?").click()

    assert page.get_by_role("dialog").is_visible()
    page.get_by_role("button", name="Close").click()
    assert page.get_by_role("dialog").count() == 0


def test_what_is_typed_into_a_field_presses_no_key_but_escape(page):
    page.get_by_label("text").focus()
    page.keyboard.type("j/d?")
    page.keyboard.press("Enter")
    assert pressed_keys(page) == []
    assert page.get_by_label("text").input_value() == "j/d?"

    page.keyboard.press("Escape")
    assert pressed_keys(page) == ["Escape"]


def test_keys_with_a_modifier_are_the_browsers(page):
    for modifier in ("Control", "Alt", "Meta", "Shift"):
        page.keyboard.press(f"{modifier}+j")
    page.keyboard.press("j")

    assert pressed_keys(page) == ["j"]


def test_enter_on_a_link_opens_the_link(page):
    page.get_by_role("link", name="link").focus()
    page.keyboard.press("Enter")

    assert pressed_keys(page) == []
    assert page.url.endswith("#main")


@pytest.mark.parametrize(
    ("event", "key"),
    [
        ({"key": "о", "code": "KeyJ"}, "j"),  # Russian
        ({"key": "/", "code": "Digit7", "shiftKey": True}, "/"),  # German
        ({"key": "/", "code": "KeyQ", "ctrlKey": True, "altKey": True, "modifierAltGraph": True}, "/"),  # Brazilian
        ({"key": "J", "code": "KeyC"}, "j"),  # Dvorak, caps lock
    ],
    ids=["russian", "german", "altgr", "dvorak"],
)
def test_keys_of_other_layouts(page, event, key):
    press(page, **event)

    assert pressed_keys(page) == [key]
