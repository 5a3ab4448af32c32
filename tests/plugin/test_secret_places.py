"""Keys with harmless names, in every place that settings have for them, and a server that returns what it was sent."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_crucible.cli import main

QUERY, SIGNED = "planted-in-a-query", "planted/in+a=signature"
TEAM, BEARER = "planted-in-a-header", "planted-in-authorization"
KEY, GATEWAY = "planted-in-api_key_env", "planted-in-a-url"
NESTED, LOGIN, TYPED = "planted-in-a-table-of-headers", "planted-in-a-login", "planted-in-a-typed-url"
PLANTED = (QUERY, SIGNED, TEAM, BEARER, KEY, GATEWAY, NESTED, LOGIN, TYPED)
ENVIRONMENT = {
    "OPENAIKEY": QUERY,
    "SIGNED": SIGNED,
    "TEAM": TEAM,
    "CI_JOB": BEARER,
    "MYTEAM": KEY,
    "DEEP": NESTED,
    "SOMEONE": LOGIN,
}
CONFIGURATION = """
    [adapters.failing]
    backend = "openai"
    base_url = "URL?api_key=$OPENAIKEY&s=$SIGNED"
    model = "m"
    retries = 0
    api_key_env = "MYTEAM"
    headers = { X-Team = "$TEAM" }

    [adapters.gateway]
    backend = "openai"
    base_url = "$GATEWAY"
    model = "m"
    headers = { Authorization = "Bearer $CI_JOB" }

    [adapters.own]
    backend = "own"
    url = "https://$SOMEONE@host/v1"
    client = { default_headers = { ours = { X-Deep = "$DEEP" } } }
"""
CONFTEST = """
    import os

    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    from pytest_crucible import Reply

    class Own:
        simulated = False
        identity = "own"

        async def generate(self, request):
            return Reply(text=f"{request.input} for {os.environ['DEEP']} of {os.environ['SOMEONE']}")

    def pytest_crucible_backend(adapter):
        return Own() if adapter.backend == "own" else None

    def pytest_configure(config):
        provider = TracerProvider()
        spans = f"spans{os.environ.get('PYTEST_XDIST_WORKER', '')}.json"
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open(spans, "w"))))
        trace.set_tracer_provider(provider)
"""
TEST = """
    import os

    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.0")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        headers = {name: os.environ[name] for name in ("OPENAIKEY", "TEAM", "DEEP", "CI_JOB", "SIGNED")}
        if sample.id == "q03":
            raise RuntimeError(f"cannot send {headers}")
        assert sample.id != "q04", f"cannot use {headers}"
        score(said=reply.text)
        return reply

    def test_of_another_kind():
        assert dict(os.environ) == {}
"""


class Echo(http.server.BaseHTTPRequestHandler):
    """Fails with what it was sent, or replies with it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        sent = f"{self.path} {dict(self.headers)} {body}"
        if "1 + 1" in body:
            # An adapter that is typed as a URL cannot have `retries = 0`: what is repeated would take a minute.
            self._answer(500 if "api_key" in self.path else 400, {"error": {"message": sent}})
        elif "2 + 2" in body:
            self._answer(400, {"detail": sent})
        else:
            choice = {"message": {"content": sent}, "finish_reason": "stop"}
            self._answer(200, {"choices": [choice], "model": sent, "usage": {}})

    def _answer(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def planted(suite, url, monkeypatch):
    suite.pytester.makeconftest(CONFTEST)
    suite.test(TEST)
    suite.pytester.makefile(".toml", crucible=CONFIGURATION.replace("URL", url))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of the tests' own worker: the session inside has others
    for name, value in {**ENVIRONMENT, "GATEWAY": f"{url}?user={GATEWAY}"}.items():
        monkeypatch.setenv(name, value)
    return suite


OWN_FILES = {"crucible.toml", "conftest.py", "test_sums.py"}
FILES = ("report.html", "report.md", "report.tex", "report.ipynb", "report.csv", "report.jsonl")


def leaks(places: dict[str, bytes]) -> list[tuple[str, str]]:
    """Each key that a text shows, however it is written, and where."""
    rows = []
    for key in PLANTED:
        spellings = {key.encode(), json.dumps(key).encode(), base64.b64encode(f"{key}:".encode())}
        spellings |= {key.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D").encode()}
        rows += [(key, name) for name, data in places.items() if any(spelling in data for spelling in spellings)]
    return rows


def cells(path: Path) -> bytes:
    """Every value of a database, unpacked."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        values = [value for table in tables for row in connection.execute(f"select * from {table}") for value in row]
    return b"\n".join(unpack_cells(value) if isinstance(value, bytes) else str(value).encode() for value in values)


def unpack_cells(data: bytes) -> bytes:
    for unpack in (zlib.decompress, gzip.decompress):
        try:
            return data + unpack(data)
        except (zlib.error, OSError):
            continue
    return data


def archive(page: str) -> bytes:
    """The packed rows of an HTML report."""
    packed = [part.split("<")[0] for part in page.split(">") if part.startswith("H4sI")]
    return b"".join(gzip.decompress(base64.b64decode(part)) for part in packed)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), pytest.param(("-n1",), marks=pytest.mark.slow)], ids=["plain", "n1"])
@pytest.mark.parametrize("arms", [("failing", "own"), ("openai+URL?user=$TYPED#m", "gateway")], ids=["tables", "urls"])
def test_no_variable_that_a_setting_names_is_anywhere(planted, url, monkeypatch, capsys, arms, arguments):
    candidate, baseline = (name.replace("URL", url) for name in arms)
    if "$TYPED" in candidate:
        monkeypatch.setenv("TYPED", TYPED)
    reports = [f"--crucible-report={name}" for name in FILES]
    other = ("--junitxml=junit.xml", "--crucible-json=run.json", "--crucible-otel", "-vv", "-rA", "-l")
    result = planted.run_apart("--crucible-adapter", candidate, "--compare", baseline, *reports, *other, *arguments)
    monkeypatch.chdir(planted.path)
    capsys.readouterr()
    for command in (
        ["show", "-vv"],
        ["show", "--sample", "q05"],
        ["show", "--json"],
        ["adapters"],
        ["doctor", "latest"],
    ):
        main(command)
    for what in ("observations", "replies", "events"):
        main(["export", "-o", f"{what}.csv", "--what", what])
    printed = capsys.readouterr()

    files = {
        path.name: path.read_bytes()
        for path in planted.path.rglob("*")
        if path.is_file() and path.name not in OWN_FILES and path.suffix != ".pyc"
    }
    assert {*FILES, "crucible.db", "run.json", "junit.xml", "spans.json", "replies.csv"} <= set(files)
    page = archive(files["report.html"].decode())
    assert b"exact_match" in page
    terminal = (result.stdout.str() + result.stderr.str()).encode()
    commands = (printed.out + printed.err).encode()
    database = cells(planted.path / ".crucible/crucible.db")
    assert b"cannot send" in database
    assert b"cannot use" in database
    places = {"terminal": terminal, "commands": commands, "cells": database, "page": page}
    assert leaks({**files, **places}) == []
    assert all(b"(key hidden)" in places[place] for place in ("terminal", "commands", "cells"))
