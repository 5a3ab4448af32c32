"""`crucible calibrate --server`: what a user sees who asks whether a server is deterministic."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import pytest
from openai_server import OpenAIServer

pytestmark = pytest.mark.uses("run_checks")
FEW = ("--prompts=4", "--repeats=6", "--concurrency=12", "--max-tokens=16")
KEY = "sk-hidden-1234567890"


@pytest.fixture(scope="module")
def scripted_server() -> Iterator[OpenAIServer]:
    with OpenAIServer.start(latency_s=0.005) as server:
        yield server


def test_a_deterministic_server_is_bounded_by_what_was_sent(crucible, server):
    status, out, err = crucible("calibrate", "--server", server.url, *FEW)

    assert status == 0
    assert out.startswith(f"m at {server.url}: 4 prompts, replies of at most 16 tokens")  # its only model
    cells = [re.split(r"  +", line) for line in out.splitlines() if "[0.000, 0.265]" in line]
    assert [row[1:] for row in cells] == [["24", "0", "0.000 [0.000, 0.265]", "12", "-"]] * 4
    assert (
        "temperature 0, 12 at once: none of 12 replies was another the second time; of 100 samples like these at most 26.5 "
        "change from run to run" in out
    )
    assert "measuring temperature 0, one at a time ..." in err
    # One request to see whether the server is there, and the four settings.
    assert server.counts()["requests"] == 1 + 4 * 24
    assert server.counts()["most_concurrent"] == 12


def test_a_server_that_flips_under_load_is_not_deterministic_there(crucible, server):
    # Each answer takes long enough for the others to be waiting.
    server.behave("batching", varies="batch", latency_s=0.1)
    status, out, _ = crucible("calibrate", "--server", server.url, "--model=batching", *FEW, "--json")
    alone, together, *_ = json.loads(out)["settings"]

    assert status == 1
    assert (alone["concurrency"], alone["changed"], alone["unlike_most"]) == (1, 0, 0)
    assert (together["concurrency"], together["replies"], together["pairs"]) == (12, 24, 12)
    # Each third reply of a prompt is another text: two of the six.
    assert together["unlike_most"] == 8
    assert together["changed"] > 0
    assert together["share"]["value"] == together["changed"] / 12
    # The answer is the prompt, of 30 characters and more, and the text differs behind it.
    assert min(together["first_differences"]) > 20


def test_a_server_that_ignores_seeds_is_found_out(crucible, server):
    server.behave("seedless", varies="sampled")
    status, out, _ = crucible("calibrate", "--server", server.url, "--model=seedless", *FEW)

    assert status == 1
    assert "temperature 0, one at a time: none of 12 replies was another the second time" in out
    assert (
        "temperature 1, equal seeds, 12 at once: of 100 samples like these about 100 [73.5, 100.0] change their reply from run "
        "to run; a yes-or-no score of 100 samples then varies by at most 0.100, or 0.100 at the upper end" in out
    )
    seeds = {request["body"].get("seed") for request in server.requests() if request["body"]["temperature"] == 1}
    assert len(seeds) == 4  # one for each prompt


def test_a_server_without_seeds_is_measured_at_temperature_0(crucible, server):
    server.behave("plain", fault="400", fault_in="seed", message="seed is not supported")
    status, out, _ = crucible("calibrate", "--server", server.url, "--model=plain", *FEW)

    assert status == 0
    assert out.count("does not accept 'seed': status 400, seed is not supported") == 2
    assert out.count("none of 12 replies was another the second time") == 2


def test_the_key_is_read_from_the_environment(crucible, server, monkeypatch):
    server.behave("private", key=KEY)
    monkeypatch.setenv("MY_KEY", KEY)
    status, out, _ = crucible("calibrate", "--server", server.url, "--model=private", "--key-env=MY_KEY", *FEW)

    assert (status, KEY in out) == (0, False)


REFUSED = {
    "no server": (["--server=http://127.0.0.1:9/v1", "--model=m"], "nothing listens at http://127.0.0.1:9"),
    "no server, no model": (
        ["--server=http://127.0.0.1:9/v1"],
        "lists no models: see whether it is the base URL of a running server, or add --model NAME",
    ),
    "no URL": (["--server=localhost:9", "--model=m"], "is not a URL of a server: write http://HOST:PORT/v1"),
    "wrong path": (["--server={url}/v2", "--model=m"], "status 404"),
    "no key": (["--server={url}", "--model=m?key=abc"], "status 401"),
    "key that is not set": (
        ["--server={url}", "--model=m", "--key-env=UNSET_KEY"],
        "that environment variable is not set",
    ),
    "garbage": (["--server={url}", "--model=m?fault=garbage"], "did not respond with a JSON object"),
    "overloaded": (["--server={url}", "--model=m?fault=503"], "status 503"),
    "empty replies": (["--server={url}", "--model=m?text="], "is empty (stop): increase --max-tokens"),
    "one prompt too few": (["--server={url}", "--prompts=0"], "0 is not in the range"),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_measured_is_one_sentence(crucible, server, arguments, sentence):
    status, out, err = crucible("calibrate", *(argument.format(url=server.url) for argument in arguments))

    assert (status, out) == (4, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_ctrl_c_ends_it_at_once(server):
    server.behave("slow", latency_s=20)
    command = [sys.executable, "-m", "pytest_crucible", "calibrate", "--server", server.url, "--model=slow"]
    # Where these tests run in the background, programs that they start would ignore Ctrl-C.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=listen) as process:
        while not server.counts()["concurrent"]:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 2
    assert err.strip().endswith("crucible calibrate: interrupted")
    assert "Traceback" not in err
