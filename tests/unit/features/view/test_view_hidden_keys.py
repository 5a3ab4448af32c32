"""Keys in the store, of the viewer's environment and of the store's URL are hidden on every page and in the export."""

from __future__ import annotations

from contextlib import closing

import pytest
from label_runs import RUN, store_labelled_run

from pytest_crucible.features.view.run_files import export_run
from pytest_crucible.features.view.sample_texts import A_PART
from pytest_crucible.features.view.site import Site
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_client

OF_SERVICE, OF_ENVIRONMENT = "sk-0123456789abcdefghijklmn", "made-up-4711-0815"
KEYS = (OF_SERVICE, OF_ENVIRONMENT)
BOTH = f"see \x1b{OF_SERVICE} and {OF_ENVIRONMENT} & <b>"
ADDRESSES = (
    *("", "/results", "/explanations", "/samples", "/samples/rows", "/samples/choices", "/requests/counts"),
    *(
        "/samples/1/3",
        "/samples/1/3/views",
        "/samples/1/3/text?of=reply-0-0-0",
        "/samples/1/4",
        "/samples?group=g%20{}",
    ),
    *("/labels", "/labels/reply?by=anna&at=1", "/samples/{}/1", "/samples/rows?group={}"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of somebody with other keys, who did not hide these."""
    path = tmp_path_factory.mktemp("keys") / "runs.db"
    store_labelled_run(path, [k % 3 > 0 for k in range(25)], [k % 2 > 0 for k in range(25)])
    # The second key stands where a part of the text ends.
    long = "x" * (A_PART - 8) + f" {OF_SERVICE} {OF_ENVIRONMENT}"
    with closing(RunStore(str(path))) as opened:
        opened.execute("UPDATE replies SET text = :text", text=BOTH)
        opened.execute("UPDATE replies SET text = :text WHERE position = 4", text=long)
        opened.execute("UPDATE samples SET sample_id = :text || position, sample_group = :text", text=BOTH)
        opened.execute("UPDATE runs SET git = :text", text=f'{{"commit": "{OF_SERVICE}", "dirty": false}}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MADE_UP_API_KEY", OF_ENVIRONMENT)
        yield path


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_page_has_a_key(store, tmp_path, address):
    with dashboard_client(store, labels=tmp_path / "labels.csv") as client:
        page = client.get(f"/runs/{RUN}{address.format(OF_SERVICE)}")

    assert [key for key in KEYS if key in page.text] == []


def test_a_long_text_has_no_key_where_its_parts_meet(store):
    with dashboard_client(store) as client:
        page = client.get(f"/runs/{RUN}/samples/1/4").text.replace('</span><span class="part">', "")

    assert [key for key in KEYS if key in page] == []
    assert page.count("(key hidden)") > 2


def test_no_exported_file_has_a_key(store, tmp_path):
    with open_for_reading(str(store), "view") as opened:
        export_run(opened, RUN, tmp_path / "exported")

    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "exported").rglob("*.html")]
    assert any("(key hidden)" in text for text in texts)
    assert [key for text in texts for key in KEYS if key in text] == []


def test_the_password_of_the_store_is_hidden(store):
    with open_for_reading(str(store), "view") as opened:
        opened.where = "postgresql://anna:pass-word-1@host/runs"

        assert Site(opened).hide("the reply is pass-word-1") == "the reply is (key hidden)"
