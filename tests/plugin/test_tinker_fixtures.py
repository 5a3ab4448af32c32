"""Tinker in a pytest session: the official SDK's clients as fixtures, and an adapter that it answers for.

What needs the SDK is skipped where it is not installed, and runs in a process of its own: parts of it cannot be imported twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tinker_http import SHAPE

from base_model.gradients import initial_weights
from base_model.tokenizer import train_tokenizer
from pytest_crucible import BackendError, Refused, Request, SpecError
from pytest_crucible.backends.tinker import service
from pytest_crucible.backends.tinker.backend import TinkerBackend, prompt_tokens, sampling_params
from pytest_crucible.local_model.checkpoints import save_base
from pytest_crucible.local_model.server.process import LocalServer
from pytest_crucible.records.errors import Retryable

UNREACHABLE = "http://127.0.0.1:9"
TEXT = " ".join(f"claim {number} of document {number * 7} is supported by evidence" for number in range(300))

GOT = """
    import os
    import pytest

    def got(future):
        return future.result(timeout=60) if hasattr(future, "result") else future
"""
ASK = """
    import os
    import pytest
    from pytest_crucible.session.tinker import tinker_services

    @pytest.fixture
    def server(request):
        return tinker_services(request.config).server

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match <= 0.50")
    async def test_sums(sample, sampler, server):
        if sample.id == os.environ.get("LAST"):
            server.process.kill()
        reply = await sampler.generate(sample.input)
        with open("calls.txt", "a") as calls:
            calls.write(f"{sample.id}: {reply.text!r}\\n")
        return reply.text
"""
MODEL = {"backend": "tinker", "base_model": "crucible/tiny"}


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """A small random model."""
    directory = tmp_path_factory.mktemp("base")
    train_tokenizer([TEXT], SHAPE.vocabulary).save(directory / "tokenizer.json")
    save_base(directory / "model.safetensors", initial_weights(SHAPE, seed=0), SHAPE)
    return directory


@pytest.fixture(autouse=True)
def _nothing_from_outside(base, monkeypatch, tmp_path, forked_programs) -> None:
    for name in [name for name in os.environ if name.startswith("TINKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the SDK keeps a key
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(base))


@pytest.fixture
def tinker() -> Any:
    return pytest.importorskip("tinker")


@pytest.fixture
def without_sdk(suite) -> None:
    suite.pytester.makeconftest("import sys; sys.modules['tinker'] = None")


def test_the_clients_are_the_sdks_own_on_a_service_of_this_machine(tinker, suite, monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-of-the-hosted-service")  # a key alone is no wish to be hosted
    monkeypatch.setenv("TINKER_BASE_URL", UNREACHABLE)
    monkeypatch.setenv("HTTP_PROXY", UNREACHABLE)
    monkeypatch.setenv("ALL_PROXY", UNREACHABLE)
    suite.test(
        GOT
        + """
    def test_train(training_client, service_client, rest_client, tokenizer, local_tinker):
        import tinker
        assert type(training_client) is tinker.TrainingClient
        assert type(service_client) is tinker.ServiceClient
        tokens = tokenizer.encode("claim 7 of document 49")
        inputs = {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)}
        datum = tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)
        losses = []
        for _ in range(3):
            losses.append(got(training_client.forward_backward([datum], "cross_entropy")).metrics["loss:sum"])
            got(training_client.optim_step(tinker.AdamParams(learning_rate=0.01)))
        assert losses[2] < losses[1] < losses[0]
        path = got(training_client.save_weights_for_sampler("three")).path
        assert path in [one.tinker_path for one in got(rest_client.list_user_checkpoints()).checkpoints]
        assert (os.environ["TINKER_BASE_URL"], os.environ["TINKER_API_KEY"]) == (local_tinker.url, local_tinker.key)

    def test_sample(sampling_client, tokenizer):
        import tinker
        assert type(sampling_client) is tinker.SamplingClient
        prompt, params = tinker.ModelInput.from_ints(tokenizer.encode("claim")), tinker.SamplingParams(max_tokens=4)
        assert len(got(sampling_client.sample(prompt, 2, params)).sequences) == 2

    @pytest.mark.parametrize("training_client", [{"rank": 4, "base_model": "crucible/tiny"}, {"rank": 6}], indirect=True)
    def test_rank(training_client, request):
        assert got(training_client.get_info()).lora_rank in (4, 6)
        assert training_client.get_tokenizer().encode("claim")

    def test_names(service_client, sampling_client, training_client):
        # A client keeps the name that it was created with. The SDK names the others by the directory of their tokenizer.
        import tinker
        assert got(training_client.get_info()).model_name == "crucible/tiny"
        own = tinker.ServiceClient()
        named = [got(client.create_sampling_client(base_model="crucible/tiny")) for client in (service_client, own)]
        trained = got(training_client.save_weights_and_get_sampling_client())
        stored = got(training_client.save_weights_for_sampler("names")).path
        loaded = got(service_client.create_sampling_client(model_path=stored))
        is_new = hasattr(tinker, "RestClient")  # SDK 0.38: earlier ones request the name from the server
        assert {got(client.get_base_model()) == "crucible/tiny" for client in (*named, sampling_client)} == {is_new}
        assert {got(client.get_base_model()) == "crucible/tiny" for client in (trained, loaded)} == {False}
        for client in (*named, sampling_client, trained, loaded):
            assert client.get_tokenizer().encode("claim")

    @pytest.mark.parametrize("training_client", [{"rnk": 4}], indirect=True)
    def test_wrong_option(training_client):
        pass

    @pytest.mark.parametrize("sampling_client", [{"model_path": "tinker://none/sampler_weights/x"}], indirect=True)
    def test_wrong_path(sampling_client):
        pass
    """
    )
    result = suite.run_apart("-o", "faulthandler_timeout=60")

    result.assert_outcomes(passed=5, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*the local Tinker server did not make an adapter to train: *'rnk'*",
            "*the local Tinker server did not open a model to sample from: unknown checkpoint tinker://none/*",
        ]
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_the_environment_leads_to_the_local_service_and_is_put_back(suite, monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
    suite.test(
        """
        import os, pathlib

        def test_environment(local_tinker):
            known = {"TINKER_BASE_URL": local_tinker.url, "TINKER_API_KEY": local_tinker.key, "TINKER_TELEMETRY": "0"}
            assert {**os.environ, **known} == dict(os.environ)
            assert "127.0.0.1" in os.environ["NO_PROXY"]
            assert "127.0.0.1" in os.environ["no_proxy"]
            pathlib.Path("pid").write_text(str(local_tinker.process.pid))
        """
    )
    before = dict(os.environ)
    suite.run().assert_outcomes(passed=1)

    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == {**before, "PYTEST_CURRENT_TEST": ""}
    with pytest.raises(ProcessLookupError):
        os.kill(int((suite.path / "pid").read_text()), 0)


def test_every_worker_has_a_server_of_its_own(suite):
    suite.test(
        """
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(2))
        def test_server(local_tinker, number, worker_id):
            pathlib.Path(f"{worker_id}.url").write_text(local_tinker.url)
        """
    )
    suite.run_n2().assert_outcomes(passed=2)

    assert len({path.read_text() for path in suite.path.glob("*.url")}) == 2


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["plain", "n1"])
def test_a_key_is_in_no_output(suite, workers):
    suite.test(
        """
        import logging, pathlib, sys, warnings

        def test_shown(local_tinker):
            key, nested = local_tinker.key, {"key": [local_tinker.key]}
            pathlib.Path("key").write_text(key)
            print("the key is", key)
            print("the key is", key, file=sys.stderr)
            logging.getLogger().warning("the key is %s", key)
            assert key == "tml-other", f"{key} {nested}"

        def test_raised(local_tinker):
            raise RuntimeError(local_tinker.key)

        def test_printed(local_tinker):
            print(local_tinker, local_tinker.key)

        def test_subject(local_tinker, subtests):
            with subtests.test(msg="a part"):
                assert not local_tinker.key
        """
    )
    result = suite.run(*workers, "-vv", "--showlocals", "-rA", "--junitxml=run.xml", "-o", "junit_logging=all")
    key = (suite.path / "key").read_text()
    output = result.stdout.str() + result.stderr.str() + (suite.path / "run.xml").read_text()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert re.fullmatch(r"tml-[0-9a-f]{32}", key)
    assert output.count("the key is (key hidden)") > 3
    assert key not in output
    assert key.removeprefix("tml-")[:12] not in output


def test_a_missing_sdk_is_reported_in_one_sentence(suite, without_sdk):
    suite.test("def test_train(training_client):\n    pass")
    result = suite.run()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['Tinker\'s clients need its SDK: pip install "pytest-crucible[[]tinker[]]" (*)'])
    assert not (suite.path / ".crucible" / "tinker").exists()


def test_a_missing_sdk_stops_an_adapter_before_any_request(suite, without_sdk):
    suite.adapters({"base": {"backend": "tinker", "base_model": "crucible/tiny"}})

    suite.refuses(suite.run("--crucible-adapter=base"), "Tinker's clients need its SDK: pip install \"pytest-*")


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (None, "the hosted Tinker service needs a key: set TINKER_API_KEY, *"),
        ("sk-of-somebody-else", "TINKER_API_KEY is not a Tinker key: it must start with 'tml-'"),
    ],
    ids=["none", "wrong"],
)
def test_the_hosted_service_needs_a_key(tinker, suite, monkeypatch, key, sentence):
    if key:
        monkeypatch.setenv("TINKER_API_KEY", key)
    suite.test("def test_train(service_client):\n    pass")
    result = suite.run_apart("--crucible-tinker=hosted")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])
    assert str(key) not in result.stdout.str()


def test_the_hosted_service_is_used_on_request_alone(tinker, suite, base, monkeypatch, tmp_path):
    suite.test(
        GOT
        + """
    def test_sample(sampling_client, tokenizer, rest_client):
        import tinker
        prompt, params = tinker.ModelInput.from_ints(tokenizer.encode("claim")), tinker.SamplingParams(max_tokens=4)
        assert got(sampling_client.sample(prompt, 1, params)).sequences

    def test_wrong(service_client):
        key = os.environ["TINKER_API_KEY"]
        assert not got(service_client.create_sampling_client(model_path="tinker://none/sampler_weights/x"))
    """
    )
    with LocalServer.start(tmp_path / "hosted", base=base) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        monkeypatch.setenv("TINKER_API_KEY", server.key)
        (name,) = (tmp_path / "hosted").glob("models/crucible/tiny-*")
        monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(name))
        result = suite.run_apart("--crucible-tinker=hosted", "--showlocals")

    result.assert_outcomes(passed=1, failed=1)
    assert not (suite.path / ".crucible" / "tinker").exists()
    assert server.key not in result.stdout.str()
    result.stdout.fnmatch_lines(["key *= '(key hidden)'"])


def test_the_hosted_service_has_no_base_model_of_its_own(tinker, suite, base, monkeypatch, tmp_path):
    suite.test("def test_train(training_client):\n    pass")
    with LocalServer.start(tmp_path / "hosted", base=base) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        monkeypatch.setenv("TINKER_API_KEY", server.key)
        monkeypatch.delenv("CRUCIBLE_TINKER_BASE")
        result = suite.run_apart("--crucible-tinker=hosted")

    result.stdout.fnmatch_lines(["the hosted Tinker service has many models: name one with crucible_tinker_base, *"])


def test_an_unreachable_service_is_noticed_at_once(tinker):
    started = time.monotonic()

    with pytest.raises(SpecError, match=rf"Tinker at {UNREACHABLE} does not answer: "):
        service.check_answers(UNREACHABLE)
    assert time.monotonic() - started < service.HEALTH_S


def test_a_service_that_never_answers_is_noticed_in_time(tinker, monkeypatch):
    monkeypatch.setattr(service, "HEALTH_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "http://{}:{}".format(*silent.getsockname())
        with pytest.raises(SpecError, match="does not answer"):
            service.check_answers(url)


def test_a_service_that_answers_with_errors_is_not_called_silent(monkeypatch):
    monkeypatch.setattr(service, "HEALTH_S", 0.5)
    monkeypatch.setattr(service, "_LOOK_S", 0.01)
    statuses, released = iter([503]), threading.Event()
    monkeypatch.setattr(service, "fetch_health", lambda url: next(statuses, None) or released.wait(60))

    with pytest.raises(SpecError, match=r"^Tinker at http://h responds only with status 503: try again later$"):
        service.check_answers("http://h")
    released.set()


def test_a_call_has_a_deadline():
    started, released = time.monotonic(), threading.Event()

    with pytest.raises(TimeoutError):
        service.run_within(0.2, lambda: released.wait(60))
    assert time.monotonic() - started < 30
    released.set()
    with pytest.raises(ValueError, match="of its own"):
        service.run_within(5, lambda: int("no number of its own"))
    assert service.run_within(5, lambda: 3) == 3


def test_a_server_that_is_gone_is_noticed_by_the_next_test(tinker, suite):
    suite.test(
        """
        def test_first(training_client, local_tinker):
            local_tinker.process.kill()
            local_tinker.process.wait()

        def test_next(training_client):
            pass
        """
    )
    started = time.monotonic()
    result = suite.run_apart()

    assert time.monotonic() - started < 20  # the SDK alone would try for 303 s
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["the local Tinker server has ended with status -9*"])


def test_a_server_that_does_not_start_is_one_sentence(suite, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", "nowhere")
    suite.test("def test_server(local_tinker):\n    pass")
    result = suite.run()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the local Tinker server cannot be started: *nowhere*"])
    assert "TINKER_BASE_URL" not in os.environ


# -- as a backend ---------------------------------------------------------------------------------------------------


def ask(suite: Any, *arguments: str) -> tuple[pytest.RunResult, list[str]]:
    """Run the suite on the local base model; what it answered."""
    suite.test(ASK)
    suite.adapters({"base": MODEL})
    with (suite.path / "crucible.toml").open("a") as file:
        file.write("parameters = { max_tokens = 6, stop = [] }\n")
    suite.forget_calls()
    result = suite.run_apart("--crucible-adapter=base", *arguments)
    return result, sorted(suite.calls())


@pytest.mark.slow
def test_an_adapter_answers_the_same_in_whatever_order_it_is_asked(tinker, suite):
    (single, answers), (many, again) = (ask(suite, f"--crucible-concurrency={number}") for number in (1, 16))

    assert (single.ret, many.ret) == (0, 0), many.stdout.str()
    assert len(answers) == 20
    assert len({line.partition(": ")[2] for line in answers}) > 10  # each sample draws with a seed of its own
    assert answers == again
    assert ask(suite, "--crucible-seed=1")[1] != answers


def test_a_killed_server_loses_the_remaining_samples_at_once(tinker, suite, monkeypatch):
    monkeypatch.setenv("LAST", "q04")
    started = time.monotonic()
    result, answers = ask(suite, "--crucible-concurrency=2")

    assert time.monotonic() - started < 30
    assert 0 < len(answers) < 20
    result.stdout.fnmatch_lines(
        ["*undecided*", "*the local Tinker server has ended with status -9*"], consecutive=False
    )


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({**MODEL, "model_path": "tinker://r/weights/n"}, "*unknown checkpoint tinker://r/weights/n"),
        ({"backend": "tinker"}, '*it needs model_path = "tinker://..." or base_model = *'),
        ({**MODEL, "rank": 4}, "adapter 'base' has 'rank', which backend 'tinker' does not know: *"),
        ({"backend": "tinker", "model_path": "v2"}, "adapter 'base' has model_path 'v2': write tinker://RUN/*"),
        ({**MODEL, "base_model": "Qwen/Qwen3-8B"}, "the local Tinker server did not open a model*is not here*"),
        ({"backend": "tinker", "model_path": "tinker://r/sampler_weights/n"}, "*unknown checkpoint tinker://r/*"),
    ],
    ids=["both, but none there", "neither", "unknown", "no path", "no such model", "no such checkpoint"],
)
def test_an_invalid_adapter_is_refused(tinker, suite, table, sentence):
    suite.adapters({"base": table})

    suite.refuses(suite.run_apart("--crucible-adapter=base"), sentence)


def test_a_checkpoint_is_named_by_its_path(tinker, suite):
    suite.refuses(
        suite.run_apart("--crucible-adapter=tinker://r/sampler_weights/n"), "*unknown checkpoint tinker://r/*"
    )


class Client:
    """A SamplingClient that answers with the tokens of the prompt, or with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.error = error

    def sample(self, prompt: Any, num_samples: int, sampling_params: Any) -> Future[Any]:
        self.asked.append(sampling_params)
        answer: Future[Any] = Future()
        if self.error is not None:
            answer.set_exception(self.error)
        elif prompt.length < 100:
            answer.set_result(
                SimpleNamespace(sequences=[SimpleNamespace(tokens=prompt.to_ints(), stop_reason="length")])
            )
        return answer


class Letters:
    """A tokenizer of code points, with a chat template."""

    chat_template = "{{ messages }}"

    def encode(self, text: str, **options: bool) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return "".join(map(chr, token_ids))

    def apply_chat_template(self, messages: Any, **options: bool) -> str:
        return "".join(f"<{message['role']}>{message['content']}" for message in messages)


def request_for(text: Any, *, repeat: int = 0, call: int = 1, **parameters: Any) -> Request:
    return Request(input=text, sample="q1", repeat=repeat, parameters=parameters, call=call)


def test_a_reply_has_text_tokens_and_its_end(tinker):
    backend = TinkerBackend(Client(), Letters(), identity="a")
    reply = asyncio.run(backend.generate(request_for("two\nlines\n", stop=["\n"], max_tokens=6)))

    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.finish) == ("two\nlines", 10, 10, "length")


def test_every_repeat_and_call_has_its_seed_and_they_follow_from_one(tinker):
    def seeds(**options: Any) -> list[int | None]:
        client = Client()
        backend = TinkerBackend(client, Letters(), identity="a", **options)
        for text, repeat, call in (("a", 0, 1), ("a", 0, 2), ("a", 1, 1), ("b", 0, 1)):
            asyncio.run(backend.generate(request_for(text, repeat=repeat, call=call)))
        return [entry.seed for entry in client.asked]

    assert seeds(seed=3) == seeds(seed=3) != seeds(seed=4)
    assert len(set(seeds(seed=3))) == 4
    assert seeds() == [None] * 4


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"tempreature": 1}, "Tinker has no parameter 'tempreature': it takes temperature, max_tokens, .*"),
        ({"temperature": "hot"}, "Tinker cannot sample with temperature = 'hot': give a valid value"),
    ],
)
def test_an_invalid_parameter_is_refused(tinker, parameters, sentence):
    with pytest.raises(Refused, match=sentence):
        sampling_params(parameters)


def test_an_input_is_a_text_messages_or_tokens():
    messages = [{"role": "user", "content": "hi"}]

    assert prompt_tokens("hi", Letters()) == prompt_tokens([104, 105], Letters()) == [104, 105]
    assert prompt_tokens(messages, Letters()) == Letters().encode("<user>hi")
    for wrong in (3, [], [True], {"a": 1}, [1, "a"]):
        with pytest.raises(Refused, match="give a text, messages with role and content, or token ids"):
            prompt_tokens(wrong, Letters())
    with pytest.raises(Refused, match="has no chat template"):
        prompt_tokens(messages, SimpleNamespace())


def answer_of(status: int, sdk: Any) -> Exception:
    import httpx

    response = httpx.Response(status, request=httpx.Request("POST", "http://tinker"))
    return sdk.APIStatusError("wrapped", response=response, body={"detail": "no such thing as tml-key"})


@pytest.mark.parametrize(("status", "kind"), [(401, Refused), (404, Refused), (400, BackendError), (500, Retryable)])
def test_an_error_stops_the_run_only_where_no_request_can_succeed(tinker, status, kind):
    backend = TinkerBackend(
        Client(answer_of(status, tinker)), Letters(), identity="a", hide=lambda text: text.replace("tml-key", "(key)")
    )
    with pytest.raises(BackendError) as caught:
        asyncio.run(backend.generate(request_for("a")))

    assert (type(caught.value), str(caught.value)) == (kind, "Tinker gave no answer: no such thing as (key)")


def test_a_service_that_is_gone_is_not_waited_for(tinker):
    looks = iter([None, None])

    def check(waited_s: float) -> None:
        if next(looks, "gone") == "gone":
            raise BackendError("the service is gone")

    backend = TinkerBackend(Client(), Letters(), identity="a", check=check)
    with pytest.raises(BackendError, match="is gone"):
        asyncio.run(asyncio.wait_for(backend.generate(request_for("a" * 100)), 10))


def test_a_request_that_is_cut_short_is_cancelled(tinker):
    answers = []

    class Watched(Client):
        def sample(self, *arguments: Any) -> Future[Any]:
            answers.append(super().sample(*arguments))
            return answers[0]

    async def cut_short() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await TinkerBackend(Watched(), Letters(), identity="a").generate(request_for("a" * 100))
        await asyncio.sleep(0)

    asyncio.run(cut_short())

    assert answers[0].cancelled()
