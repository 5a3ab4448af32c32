"""One run's pages as files: complete, linked, without scripts, and all at once."""

from __future__ import annotations

import functools
import re
import threading
from contextlib import closing, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
from chromium import chromium
from label_runs import RUN, store_labelled_run

from pytest_crucible.features.view import run_files
from pytest_crucible.features.view.label_queue import LabelQueue
from pytest_crucible.features.view.run_files import export_run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.runs import RunStore

HOSTILE = "<script>alert(1)</script>\u202e <img src=x onerror=alert(1)>"


@pytest.fixture
def store(tmp_path):
    path = store_labelled_run(tmp_path / "runs.db", [k % 3 > 0 for k in range(25)], [k % 2 > 0 for k in range(25)])
    with closing(RunStore(str(path))) as opened:
        opened.execute("UPDATE replies SET text = :text WHERE position = 3", text=HOSTILE)
        opened.execute("UPDATE samples SET sample_id = :text WHERE position = 4", text=HOSTILE)
    with open_for_reading(str(path), "view") as opened:
        yield opened


@pytest.fixture
def small_files(monkeypatch):
    """Files of ten samples."""
    monkeypatch.setattr(run_files, "SAMPLES_A_FILE", 10)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def serve(folder: Path):
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *arguments: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def find_targets(page: str) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]+)"', page)


@pytest.mark.usefixtures("small_files")
def test_each_link_leads_to_a_file_and_a_place_in_it(store, tmp_path):
    folder = tmp_path / "pages"
    export_run(store, RUN, folder)
    pages = {name: content.decode() for name, content in contents(folder).items() if name.endswith(".html")}

    assert {"index.html", "samples.html", "samples/1/1.html", "samples/1/2.html", "samples/1/3.html"} < pages.keys()
    for name, page in pages.items():
        for target in find_targets(page):
            if not target.startswith("data:"):
                path, fragment = urldefrag(urljoin(f"http://x/{name}", target))
                path = path.removeprefix("http://x/")
                assert (folder / path).is_file(), (name, target)
                assert not fragment or f'id="{fragment}"' in pages[path], (name, target)


@pytest.mark.usefixtures("small_files")
def test_each_sample_is_in_its_file_with_replies_and_scores(store, tmp_path):
    export_run(store, RUN, tmp_path / "pages")
    second = (tmp_path / "pages" / "samples" / "1" / "2.html").read_text()

    assert re.findall(r'id="sample-(\d+)"', second) == [str(k) for k in range(10, 20)]
    for text in ("What is 12?", "v2: False", "v1: False", "<dt>exact</dt><dd>False</dd>"):
        assert text in second


def test_texts_are_inert_and_no_page_has_a_script_a_token_or_an_inline_style(store, tmp_path):
    export_run(store, RUN, tmp_path / "pages")

    for name, content in contents(tmp_path / "pages").items():
        page = content.decode()
        if name.endswith(".html"):
            assert not re.search(r"<script|<img|\sstyle=|\son\w+=\"|token", page), name
            assert "Content-Security-Policy" in page
            assert "filter, search and the live view are left out" in page
            assert "\u202e" not in page


def test_equal_runs_give_equal_bytes_and_an_export_is_replaced(store, tmp_path):
    first = export_run(store, RUN, tmp_path / "pages")
    before = contents(tmp_path / "pages")
    (tmp_path / "pages" / "index.html").write_text("old")
    second = export_run(store, RUN, tmp_path / "pages")

    assert contents(tmp_path / "pages") == before
    assert (first, first.files, first.size) == (second, len(before), sum(map(len, before.values())))
    assert {path.name for path in tmp_path.iterdir()} >= {"pages"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".pages")]


@pytest.mark.parametrize("other", ["thesis.tex", "samples/1/9.html", "assets/own.css"])
def test_a_folder_with_other_files_is_refused_and_stays(store, tmp_path, other):
    folder = tmp_path / "pages"
    export_run(store, RUN, folder)
    (folder / other).write_text("mine")
    before = contents(folder)

    with pytest.raises(SpecError, match=f"has other files, such as '{other}': name a new or an empty folder"):
        export_run(store, RUN, folder)

    assert contents(folder) == before


def test_an_export_that_fails_leaves_the_earlier_one(store, tmp_path, monkeypatch):
    folder = tmp_path / "pages"
    export_run(store, RUN, folder)
    before = contents(folder)

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_files, "read_samples", fail)
    with pytest.raises(SpecError, match="cannot be written \\(No space left on device\\)"):
        export_run(store, RUN, folder)

    assert contents(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir() if "pages" in path.name) == ["pages"]


def test_what_cannot_be_exported_is_one_sentence(store, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="is a file: name a new or an empty folder"):
        export_run(store, RUN, tmp_path / "file")
    with pytest.raises(SpecError, match="cannot be written"):
        export_run(store, RUN, tmp_path / "no" / "folder")
    with closing(RunStore(str(tmp_path / "runs.db"))) as writable:
        writable.end_run(RUN, finished="2026-01-02", status="running")
    with pytest.raises(SpecError, match="has not finished: export it when it has"):
        export_run(store, RUN, tmp_path / "pages")


def test_a_run_in_postgresql_is_exported_and_labelled_alike(postgresql_store, tmp_path):
    arms = [k % 3 > 0 for k in range(25)], [k % 2 > 0 for k in range(25)]
    keys, pages = [], []
    for number, where in enumerate((str(tmp_path / "runs.db"), postgresql_store)):
        store_labelled_run(where, *arms)
        with open_for_reading(where, "view") as store:
            export_run(store, RUN, tmp_path / f"pages{number}")
            queues = [LabelQueue(store, RUN, first) for first in ("random", "disagreements")]
            keys.append([queue.turn(place).key for queue in queues for place in range(len(queue))])
        # The environment names the store.
        pages.append(
            {name: page for name, page in contents(tmp_path / f"pages{number}").items() if name != "index.html"}
        )

    assert pages[0] == pages[1]
    assert keys[0] == keys[1]


@pytest.mark.usefixtures("small_files")
def test_a_static_server_and_the_file_system_serve_it_in_chromium_without_a_message(store, tmp_path):
    export_run(store, RUN, tmp_path / "pages")
    messages = []
    with chromium() as browser, serve(tmp_path) as address:
        page = browser.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("response", lambda response: messages.append(response.url) if response.status >= 400 else None)
        for base in (f"{address}pages/", (tmp_path / "pages").as_uri() + "/"):
            for name in ("index.html", "requests.html", "training.html", "samples.html"):
                page.goto(base + name)
                assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
            page.goto(f"{base}samples/1/1.html#sample-3")
            page.wait_for_function("() => document.querySelector('#sample-3').closest('details').open")
            page.click("text=Samples after")
            page.wait_for_url("**/samples/1/2.html")

    assert messages == []
