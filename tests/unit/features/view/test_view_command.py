"""`crucible view` as a process: its link, its end, its errors, and clients that are slow."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import re
import signal
import socket
import stat
import sys
import urllib.request
from pathlib import Path

import pytest
from experiment_builders import store_run

from pytest_crucible.cli import USAGE, main
from pytest_crucible.features.view.server import open_browser
from pytest_crucible.features.view.server.server import MOST, open_socket, origins
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore
from tests.dashboard import dashboard_process

RUN = "3f2a1c9d8e7b"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("command") / "runs.db"
    with contextlib.closing(RunStore(str(path))) as opened:
        store_run(opened, RUN, [Sample(id="q", input="1 + 1")], v2=[True])
        opened.end_run(RUN, finished="2026-01-02", status="finished")
    return path


def open_dashboard(link):
    """Return a function that reads an address as a browser does that has opened the link."""
    cookies = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    opener.open(link, timeout=20).close()
    origin = re.match(r"http://[^/]*", link)[0]
    return lambda path: opener.open(origin + path, timeout=20)


def test_an_export_says_what_takes_long_before_it_begins(store, tmp_path, capsys):
    assert main(["view", "latest", f"--store={store}", "--export", str(tmp_path / "pages")]) == 0

    written = capsys.readouterr()
    assert written.err.startswith(f"exporting run {RUN}: its verdicts are decided again")
    assert "index.html" in written.out


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_although_pages_follow_a_run(store, sign):
    with dashboard_process(store, "--no-browser", "latest") as (link, process):
        get = open_dashboard(link)
        streams = [get("/events"), get(f"/runs/{RUN}/events")]
        process.send_signal(sign)

        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == process.stderr.read() == ""
        for stream in streams:
            stream.close()
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/runs/{RUN}\?token=[\w-]{{43}}", link)


def test_the_browser_gets_a_private_file_and_no_argument_has_the_token(store, tmp_path):
    log = tmp_path / "log.json"
    program = tmp_path / "browser"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys, urllib.parse\n"
        "path = urllib.parse.urlsplit(sys.argv[1]).path\n"
        "modes = [oct(os.stat(each).st_mode & 0o777) for each in (path, os.path.dirname(path))]\n"
        f"json.dump([path, open(path).read(), modes], open({str(log)!r} + '.part', 'w'))\n"
        f"os.rename({str(log)!r} + '.part', {str(log)!r})\n"
    )
    program.chmod(0o755)

    with dashboard_process(store, env={**os.environ, "BROWSER": f"{program} %s"}) as (link, process):
        with open_dashboard(link)("/"):
            pass
        while not log.exists():
            assert process.poll() is None
        path, page, modes = json.loads(log.read_text())
        token = link.partition("token=")[2]
        arguments = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if _is_readable(file)]
        assert not [line for line in arguments if token.encode() in line]
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
    assert link in page
    assert modes == ["0o600", "0o700"]
    assert not Path(path).parent.exists()


def _is_readable(file):
    try:
        return bool(file.read_bytes())
    except OSError:
        return False


def test_the_private_file_is_removed_with_the_context(monkeypatch):
    opened = []
    monkeypatch.setattr(open_browser.webbrowser, "open", opened.append)

    with open_browser.browser_page('http://127.0.0.1:1/?token="<b>'):
        (path,) = Path(opened[0].removeprefix("file://")).parent.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "<b>" not in path.read_text()
    assert not path.parent.exists()


def test_slow_clients_do_not_stop_it(store):
    with dashboard_process(store, "--no-browser") as (link, process), contextlib.ExitStack() as stack:
        get = open_dashboard(link)
        port = int(re.search(r":(\d+)/", link)[1])
        parts = [
            b"",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500,
            b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\nx",
            b"GET /" + b"a" * 50_000,
            b"\x00\xff\x16\x03\x01" * 100,
        ]
        for number in range(3 * MOST):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            with contextlib.suppress(OSError):
                client.sendall(parts[number % len(parts)])

        with get("/") as response:
            assert response.status == 200
        files = len(os.listdir(f"/proc/{process.pid}/fd")) if Path("/proc").exists() else 0
        assert files < 2 * MOST
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


def test_a_port_that_is_taken_names_the_next(store, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        assert main(["view", f"--store={store}", f"--port={port}"]) == USAGE
    assert re.fullmatch(
        rf"crucible view: port {port} is taken: use --port {port + 1}\d*, or --port 0 for any free one\n"
        if port < 65_000
        else ".*",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("nosuch.invalid", "--host nosuch.invalid is no host that exists: use --host 127.0.0.1, or an address of"),
        ("a..b", "--host a..b is no host that exists"),
        ("203.0.113.7", "--host 203.0.113.7 is not an address of this machine: use --host 127.0.0.1"),
    ],
)
def test_a_wrong_host_is_one_sentence(host, sentence):
    with pytest.raises(SpecError) as raised:
        open_socket(host, 0)

    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(("host", "origin"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")])
def test_a_link_has_the_host_as_addresses_have_it(host, origin):
    try:
        listening = open_socket(host, 0)
    except SpecError:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert origins(listening)[0].startswith(origin)


def test_a_page_does_not_wait_for_the_browser_to_confirm_its_head():
    with open_socket("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_dashboard_for_all_machines_warns_and_names_this_machine(store):
    with dashboard_process(store, "--no-browser", "--host=0.0.0.0") as (link, process):
        second = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        warning = process.stderr.read()

    assert link.startswith("http://127.0.0.1:")
    assert second.startswith(f"http://{socket.gethostname()}:")
    assert warning == (
        "--host 0.0.0.0: the connection is not encrypted and others on the network can read it; "
        "use an SSH tunnel instead\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["3f2b"], f"no run begins with '3f2b': did you mean {RUN}?"),
        (
            ["--store=nosuch.db"],
            "nosuch.db does not exist: run pytest with an experiment first, or name a store with --store",
        ),
    ],
)
def test_what_is_missing_is_one_sentence(store, arguments, sentence, capsys):
    assert main(["view", f"--store={store}", "--port=0", *arguments]) == USAGE
    assert capsys.readouterr().err == f"crucible view: {sentence}\n"


def test_without_the_extra_the_command_says_what_to_install(store, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("pytest_crucible.features.view.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)

    assert main(["view", f"--store={store}"]) == USAGE
    assert capsys.readouterr().err == (
        "crucible view: crucible view needs the extra 'ui': pip install \"pytest-crucible[ui]\"\n"
    )
