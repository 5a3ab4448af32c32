"""The local Tinker server as a process: how it starts, what it tells, and every way in which it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tinker_http import SHAPE, WAIT_S, Http, OpenAI, ask, forward_backward, forward_backward_message, save

from base_model.gradients import initial_weights
from pytest_crucible.local_model.checkpoints import save_base
from pytest_crucible.local_model.server.process import LocalServer, ServerFailed


def test_it_listens_on_the_loopback_interface_only(server):
    port = urlsplit(server.url).port
    hexadecimal = f"{port:04X}"
    listening = [
        line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    ]
    everywhere = Path("/proc/net/tcp6").read_text() if Path("/proc/net/tcp6").exists() else ""

    assert [entry for entry in listening if entry.endswith(f":{hexadecimal}")] == [f"0100007F:{hexadecimal}"]
    assert f":{hexadecimal} 0000" not in everywhere


def test_the_key_is_in_no_repr(server):
    assert server.key not in repr(server)
    assert server.key not in " ".join(map(str, server.process.args))


def test_its_environment_leads_clients_past_a_proxy(server, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet")

    assert server.environment()["NO_PROXY"] == "intranet,127.0.0.1,localhost"
    assert server.environment()["TINKER_BASE_URL"] == server.url


def test_sigterm_ends_it_in_order_and_fails_what_is_unfinished(base, tmp_path):
    server = LocalServer.start(tmp_path, base=base)
    client = Http(server)
    session = client.post("/create_session")["session_id"]
    opened = client.post(
        "/create_sampling_session", session_id=session, sampling_session_seq_id=0, base_model="crucible/tiny"
    )
    sampler = opened["sampling_session_id"]
    ids = [
        ask(client, number, sampler, num_samples=64, params={"max_tokens": 100, "stop": [], "seed": number})[
            "request_id"
        ]
        for number in range(30)
    ]
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.result, ids[-1])
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)

        assert waiting.result(WAIT_S) == {"error": "the server was stopped", "category": "server"}
    assert server.process.wait(WAIT_S) == 0
    server.stop()


def test_it_ends_when_its_parent_is_killed(base, tmp_path):
    script = f"""
        import sys, time
        from pathlib import Path
        from pytest_crucible.local_model.server.process import LocalServer
        server = LocalServer.start(Path({str(tmp_path)!r}), base=Path({str(base)!r}))
        print(server.process.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.kill()
    until = time.monotonic() + WAIT_S
    while _alive(child):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_kill_during_a_request_is_noticed_and_loses_no_checkpoint(base, tmp_path):
    with LocalServer.start(tmp_path, base=base) as server:
        client = Http(server)
        session = client.post("/create_session")["session_id"]
        body = {"session_id": session, "model_seq_id": 0, "base_model": "crucible/tiny", "lora_config": {"rank": 4}}
        model = client.post("/create_model", **body)["model_id"]
        path = save(client, model, 1, "/save_weights_for_sampler", path="kept")["path"]
        opened = client.post("/create_sampling_session", session_id=session, sampling_session_seq_id=0, model_path=path)
        params = {"max_tokens": 100, "stop": []}
        for number in range(30):
            last = ask(client, number, opened["sampling_session_id"], num_samples=64, params=params)["request_id"]
        client.post("/save_weights_for_sampler", model_id=model, seq_id=2, path="late")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.result, last)
            time.sleep(0.2)
            server.process.kill()

            with pytest.raises((ConnectionError, http.client.HTTPException)):
                waiting.result(WAIT_S)
        server.process.wait(WAIT_S)
        with pytest.raises(ServerFailed, match=r"has ended with status -9"):
            server.check()
    with LocalServer.start(tmp_path, base=base) as again:
        listed = Http(again).get("/checkpoints")["checkpoints"]

        # The late one does not wait for the samples: it is there as a whole, or not at all.
        saved = [entry["tinker_path"] for entry in listed]
        assert path in saved
        assert [OpenAI(again).complete(prompt="claim", model=place)[0] for place in saved] == [200] * len(saved)
        assert Http(again).get(f"/training_runs/{model}")["lora_rank"] == 4
        assert Http(again).refusal("/retrieve_future", request_id=last)[0] == 410


@pytest.mark.slow
def test_kills_while_many_clients_train_and_sample_lose_no_saved_checkpoint(base, tmp_path):
    """Four clients save as fast as they can beside 64 long replies, and the server is killed at some moment, five times."""
    replies: dict[str, object] = {}
    for kill in range(5):
        with LocalServer.start(tmp_path, base=base) as server, ThreadPoolExecutor(5) as threads:
            # More than a page of them are saved.
            page = Http(server).get("/checkpoints?limit=100000")
            listed = {entry["tinker_path"] for entry in page["checkpoints"]}
            assert set(replies) <= listed
            assert {path: _reply_of(server, path) for path in replies} == replies
            busy = threads.submit(OpenAI(server).complete, prompt="claim", n=64, max_tokens=100, stop=[])
            saving = [threads.submit(_save_until_killed, server) for _ in range(4)]
            time.sleep(1 + kill / 4)
            server.process.kill()

            saved = [path for client in saving for path in client.result(WAIT_S)]
            busy.exception(WAIT_S)
        assert saved
        with LocalServer.start(tmp_path, base=base) as again:
            replies |= {path: _reply_of(again, path) for path in saved}


def _save_until_killed(server: LocalServer) -> list[str]:
    """Train a model and save it after each step, and return the paths that the server has confirmed."""
    client, paths = Http(server), []
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        session = client.post("/create_session")["session_id"]
        body = {"session_id": session, "model_seq_id": 0, "base_model": "crucible/tiny", "lora_config": {"rank": 4}}
        model = client.result(client.post("/create_model", **body)["request_id"])["model_id"]
        for step in range(1000):
            _, accepted = forward_backward(server, forward_backward_message(model, 3 * step + 1))
            client.protobuf(accepted["request_id"])
            client.post("/optim_step", model_id=model, seq_id=3 * step + 2, adam_params={"learning_rate": 0.01})
            path = save(client, model, 3 * step + 3, "/save_weights_for_sampler", path=f"step{step}")["path"]
            paths.append(path)
    return paths


def _reply_of(server: LocalServer, path: str) -> object:
    status, answer = OpenAI(server).complete(prompt="claim", model=path, max_tokens=8, temperature=0, logprobs=1)
    assert status == 200, answer
    return answer["choices"]


def test_an_occupied_port_is_reported(server, base, tmp_path):
    port = urlsplit(server.url).port
    command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--base", str(base)]
    command += ["--directory", str(tmp_path), "--port", str(port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    assert ended.returncode == 4
    assert "Address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_long_name_is_on_standard_error(server, http_client):
    long = http_client.get("/get_server_capabilities")["supported_models"][0]["model_name"]

    assert f"crucible/tiny is {long}: " in server.log.read_text()


def test_a_server_that_cannot_start_reports_the_reason(tmp_path):
    with pytest.raises(ServerFailed, match=r"ended with status 4 before it was ready; its output: .*nowhere"):
        LocalServer.start(tmp_path, base=tmp_path / "nowhere")


def test_a_checkpoint_of_another_base_is_refused(http_client, model, server, tokenizer, tmp_path):
    path = save(http_client, model, 1, path="ck1")["path"]
    other = tmp_path / "base"
    other.mkdir()
    tokenizer.save(other / "tokenizer.json")
    save_base(other / "model.safetensors", initial_weights(SHAPE, seed=1), SHAPE)
    directory = Path(http_client.get("/get_server_capabilities")["supported_models"][0]["model_name"]).parents[2]
    with LocalServer.start(directory, base=other) as another:
        client = Http(another)
        session = client.post("/create_session")["session_id"]
        body = {"session_id": session, "model_seq_id": 0, "path": path, "optimizer": True}

        assert client.refusal("/load_weights", **body)[1].startswith(f"{path} belongs to another base model")
        assert OpenAI(another).complete(prompt="a", model=path)[0] == 400


def test_the_command_prints_one_line_for_a_shell(base, tmp_path):
    command = [
        sys.executable,
        "-m",
        "pytest_crucible",
        "tinker",
        "server",
        "--base",
        str(base),
        "--directory",
        str(tmp_path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        values = dict(word.split("=", 1) for word in process.stdout.readline().decode().split())
        process.send_signal(signal.SIGINT)

        assert process.wait(WAIT_S) == 0
    assert set(values) == {"TINKER_BASE_URL", "TINKER_API_KEY"}
    assert values["TINKER_API_KEY"].startswith("tml-")


def test_prepare_all_stands_in_for_the_models_of_the_installed_cookbook(base, tmp_path):
    pytest.importorskip("pyarrow")
    cookbook = tmp_path / "site/tinker_cookbook"
    cookbook.mkdir(parents=True)
    (cookbook / "__init__.py").touch()
    (cookbook / "model_info.py").write_text('def models():\n    org = "Qwen"\n    return {"Qwen9-1B": 1}\n')
    (cookbook / "recipe.py").write_text('rows = load_dataset("org/data"), load_dataset("openai/gsm8k")\n')
    information = tmp_path / "site/tinker_cookbook-9.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tinker-cookbook\nVersion: 9.1\n")
    command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--base", str(base), "--prepare", "all"]
    command += ["--directory", str(tmp_path / "tinker")]
    path = os.pathsep.join((str(tmp_path / "site"), *sys.path))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes) as process:
        assert process.stdout
        values = dict(word.split("=", 1) for word in process.stdout.readline().decode().split())
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=WAIT_S)[1].decode()

    assert values["HF_HOME"] == str(tmp_path / "tinker/hub")
    assert values["WANDB_MODE"] == "offline"
    names = sorted(place.name for place in (tmp_path / "tinker/hub/hub").iterdir())
    assert names == ["models--Qwen--Qwen9-1B", "models--crucible--tiny"]
    assert (
        "models of tinker-cookbook 9.1: 1, each with a stand-in here\nits data sets without a stand-in: org/data\n"
        in errors
    )
    assert "Qwen/Qwen9-1B: crucible/tiny stands in here" in errors


def test_a_key_that_the_sdk_would_not_take_is_refused():
    command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--key", "secret"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    assert ended.returncode == 4
    assert (
        ended.stderr
        == "crucible tinker server: the key does not start with 'tml-', which the tinker SDK requires: choose another one\n"
    )


def test_the_ready_file_is_for_its_owner_only(base, tmp_path):
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--base", str(base)]
    command += ["--directory", str(tmp_path), "--ready-file", str(ready), "--with-parent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + WAIT_S
        while not ready.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        document = json.loads(ready.read_text())

        assert document["pid"] == process.pid
        assert os.stat(ready).st_mode & 0o777 == 0o600


def _alive(process: int) -> bool:
    """Return whether a process runs; a zombie is dead."""
    with contextlib.suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    return False
