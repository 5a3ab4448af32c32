"""Messages on a run, sent by apprise to a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("apprise")
TOKEN = "s3cr3t-t0ken-of-a-room"


@pytest.fixture
def inbox(monkeypatch) -> Iterator[list[dict[str, str]]]:
    """The messages that the server has received; $ROOM is its URL."""
    received: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ROOM", f"json://127.0.0.1:{server.server_port}/{TOKEN}")
    yield received
    server.shutdown()
    server.server_close()


def configure(suite, table: str) -> None:
    path = suite.path / "crucible.toml"
    path.write_text(path.read_text() + f"\n[notify]\n{table}\n")


def files_with_the_token(suite) -> list[str]:
    files = (path for path in suite.path.rglob("*") if path.is_file())
    return [path.name for path in files if TOKEN.encode() in path.read_bytes()]


@pytest.mark.slow
def test_one_message_when_a_run_misses_and_has_spent_its_budget(suite, inbox):
    suite.script("from pytest_crucible import Reply\ndef answer(request):\n    return Reply(text='?')\nbase = answer")
    configure(suite, 'ended = "$ROOM"\nmissed = "${ROOM}"\nbroken = "$ROOM"\nbudget = { at = 0.8, to = "$ROOM" }')
    result = suite.run(
        "--crucible-adapter=scripted", "--crucible-budget=20 requests", "--log-level=DEBUG", "--log-file=log.txt"
    )

    assert result.ret == 1
    assert len(inbox) == 2
    budget, end = sorted(inbox, key=lambda message: "missed" in message["title"])
    assert "20 of 20 requests spent" in budget["title"]
    assert "1 of 1 verdicts missed" in end["title"]
    assert end["message"] == "test_sums: exact_match >= 0.70: missed"
    assert TOKEN not in result.stdout.str() + result.stderr.str()
    assert files_with_the_token(suite) == []


@pytest.mark.slow
def test_a_run_that_breaks_and_a_message_that_cannot_be_sent(suite, inbox, monkeypatch):
    configure(suite, 'missed = "$ROOM"\nbroken = "$ROOM"\nended = "$NOWHERE"')
    result = suite.run("--crucible-adapter=v9")
    assert result.ret == 4
    assert [message["title"].partition(" was ")[2] for message in inbox] == ["refused or its run store failed"]
    assert "v9" in inbox[0]["message"]

    monkeypatch.setenv("NOWHERE", f"json://127.0.0.1:9/{TOKEN}")
    result = suite.run("--crucible-adapter=v2")
    assert result.ret == 0
    assert len(inbox) == 1
    result.stdout.fnmatch_lines(
        ["warning: the message to $NOWHERE (127.0.0.1) was not sent: the service did not take it"]
    )
    assert TOKEN not in result.stdout.str()
