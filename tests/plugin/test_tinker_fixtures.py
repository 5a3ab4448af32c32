"""Tinker in a pytest session: the official SDK's clients as fixtures, and an adapter that it answers for.

What needs the SDK is skipped where it is not installed, and runs in a process of its own: parts of it cannot be imported twice.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tinker_http import SHAPE

from base_model.gradients import initial_weights
from base_model.tokenizer import train_tokenizer
from pytest_crucible.local_model.checkpoints import save_base
from pytest_crucible.local_model.server.process import LocalServer

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
    from pytest_crucible.session.adapter_context import tinker_services

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

    @pytest.mark.parametrize("training_client", [{"rnk": 4}], indirect=True)
    def test_wrong_option(training_client):
        pass

    @pytest.mark.parametrize("sampling_client", [{"model_path": "tinker://none/sampler_weights/x"}], indirect=True)
    def test_wrong_path(sampling_client):
        pass
    """
    )
    result = suite.run_apart("-o", "faulthandler_timeout=60")

    result.assert_outcomes(passed=4, errors=2)
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


def test_a_missing_sdk_stops_an_adapter_before_any_request(suite, without_sdk):
    suite.adapters({"base": {"backend": "tinker", "base_model": "crucible/tiny"}})

    suite.refuses(suite.run("--crucible-adapter=base"), "Tinker's clients need its SDK: pip install \"pytest-*")


def test_the_hosted_service_has_no_base_model_of_its_own(tinker, suite, base, monkeypatch, tmp_path):
    suite.test("def test_train(training_client):\n    pass")
    with LocalServer.start(tmp_path / "hosted", base=base) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        monkeypatch.setenv("TINKER_API_KEY", server.key)
        monkeypatch.delenv("CRUCIBLE_TINKER_BASE")
        result = suite.run_apart("--crucible-tinker=hosted")

    result.stdout.fnmatch_lines(["the hosted Tinker service has many models: name one with crucible_tinker_base, *"])


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
