"""`crucible doctor --server`: what a user reads of a server that works, and of one that does not."""

from __future__ import annotations

import http.server
import json
import socket
import threading

import pytest
from openai_server import OpenAIServer

from pytest_crucible.backends.openai import probe

KEY = "sk-hidden-1234567890"


@pytest.fixture
def server(scripted_server, monkeypatch) -> OpenAIServer:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    scripted_server.reset()
    return scripted_server


def states(output: str) -> dict[str, str]:
    """Return the state of each line of the command by its subject."""
    rows = (line.split(None, 1) for line in output.splitlines())
    return {rest.partition(":")[0]: state for state, rest in rows}


def test_each_ability_of_a_server_is_a_line(crucible, server):
    server.behave(text='{"ready": true}')
    status, out, _ = crucible("doctor", "--server", server.url)

    assert status == 0
    assert states(out) == dict.fromkeys(
        ("key", "model", "reply", "limits", "streaming", "log-probabilities", "JSON schema"), "ok"
    )
    assert "key: no key was sent, because OPENAI_API_KEY is not set" in out
    assert "limits: none in the server's headers" in out
    assert server.counts()["requests"] == 4


def test_what_a_server_lacks_does_not_fail(crucible, server):
    """It answers with the prompt, which follows no schema."""
    status, out, _ = crucible("doctor", "--server", server.url, "--json")
    results = {result["subject"]: result for result in json.loads(out)}

    assert status == 0
    assert results["JSON schema"]["state"] == "lacks"
    assert results["JSON schema"]["detail"].startswith("the reply does not follow it: 'Reply with one word")


@pytest.mark.parametrize(
    ("behaviour", "subject", "sentence"),
    [
        ({"fault": "401"}, "key", "no key was sent, because OPENAI_API_KEY is not set"),
        ({"fault": "429"}, "limits", "status 429"),
        ({"fault": "404"}, "reply", "status 404"),
        ({"fault": "500"}, "reply", "status 500"),
        ({"fault": "garbage"}, "reply", "did not respond with a JSON object; its base URL usually ends in /v1"),
        ({"text": ""}, "reply", "the text is empty"),
        ({"fault": "reset"}, "reply", "connection"),
    ],
)
def test_a_failure_is_named_by_its_cause(crucible, server, behaviour, subject, sentence):
    server.behave("m", **behaviour)
    status, out, err = crucible("doctor", "--server", server.url, "--model", "m")

    assert (status, states(out)[subject]) == (1, "fails")
    assert sentence in out
    assert "Traceback" not in out + err


def test_a_wrong_key_is_not_shown(crucible, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.behave("m", fault="401")
    _, out, _ = crucible("doctor", "--server", server.url, "--model", "m")

    assert "the key is that of OPENAI_API_KEY" in out
    assert KEY not in out


def test_a_model_that_the_server_does_not_list_is_named_with_the_nearest(crucible, server):
    server.behave("mm", fault="404")
    status, out, _ = crucible("doctor", "--server", server.url, "--model", "mm")

    assert (status, "model: the server has no model 'mm': did you mean 'm'?" in out) == (1, True)


def test_a_server_that_is_not_there_is_one_sentence(crucible):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        # Bound, so that no other process gets the port, and nothing listens there.
        status, out, err = crucible("doctor", "--server", url)
        named, lines, _ = crucible("doctor", "--server", url, "--model", "m")

    assert (status, out) == (4, "")
    assert err.startswith(
        f"crucible doctor: --server {url} lists no models: see whether it is the base URL of a running server, or add --model NAME"
    )
    assert (named, states(lines)) == (1, {"reply": "fails"})


def test_a_server_that_hangs_is_left_after_a_while(crucible, server, monkeypatch):
    monkeypatch.setattr(probe, "PATIENCE_S", 0.2)
    server.behave("m", latency_s=30.0)
    status, out, _ = crucible("doctor", "--server", server.url, "--model", "m")

    assert status == 1
    assert "fails  reply: no reply within 0.2 s" in out


def test_a_page_of_html_is_not_a_reply(crucible):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html><body>Sign in</body></html>")

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        status, out, _ = crucible("doctor", "--server", f"http://127.0.0.1:{pages.server_port}", "--model", "m")
        pages.shutdown()

    assert (status, states(out)) == (1, {"reply": "fails"})
    assert "did not respond with a JSON object; its base URL usually ends in /v1" in out


def test_help_of_doctor_lists_the_page(crucible):
    assert "--server URL" in crucible("doctor", "--help")[1]
