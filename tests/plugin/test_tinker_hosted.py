"""Services that are not the session's own: a second local server, behind a relay, stands in for the hosted one.

What needs the SDK is skipped where it is not installed, and runs in a process of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_tinker import Fault, Faulty, in_time
from tinker_http import Http, save
from tiny_base import write_tiny_base

from pytest_crucible.local_model.server.process import LocalServer

HOSTED = "--crucible-tinker=hosted"
GOT = """
    import pathlib
    import pytest

    def got(future):
        return future.result(timeout=60) if hasattr(future, "result") else future
"""
IMPATIENT = "from pytest_crucible.backends import circuit_breaker; circuit_breaker.MAX_SILENCE_S = 3.0"
"""A service that was there is waited for, as long as it takes to restart it."""
TEST_REPLIES = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.score_bounds(length=(0, 100_000))
    @pytest.mark.quality_target("length >= 0")
    @pytest.mark.ab_compare("length")
    async def test_replies(sample, sampler, score):
        reply = await sampler.generate(sample.input, max_tokens=4)
        with open("calls.txt", "a") as calls:
            calls.write(f"{sampler.arm.name} {sample.id} {reply.text!r}\\n")
        score(length=len(reply.text))
        return reply
"""


@pytest.fixture(autouse=True)
def _nothing_from_outside(base, monkeypatch, tmp_path, forked_programs) -> None:
    for name in [name for name in os.environ if name.startswith("TINKER_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the SDK keeps a key
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(base))
    pytest.importorskip("tinker")


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("hosted")


@pytest.fixture(scope="module")
def behind(base, directory, python) -> Iterator[LocalServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", python)
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        with LocalServer.start(directory, base=base) as server:
            yield server


@pytest.fixture
def model(behind, directory) -> str:
    return base_name(directory)


def base_name(directory: Path) -> str:
    """Return the service's name of its base model."""
    (name,) = directory.glob("models/crucible/tiny-*")
    return str(name)


@pytest.fixture
def checkpoint(behind, tmp_path) -> str:
    """The path of an adapter that the service keeps; its name is the test's."""
    client = Http(behind)
    session = client.post("/create_session", user_metadata={}, display_name="trained")["session_id"]
    created = client.post(
        "/create_model", session_id=session, model_seq_id=0, base_model="crucible/tiny", lora_config={"rank": 4}
    )
    client.result(created["request_id"])
    path = save(client, created["model_id"], 1, "/save_weights_for_sampler", path=tmp_path.name, ttl_seconds=3600)[
        "path"
    ]
    assert isinstance(path, str)
    return path


@pytest.fixture
def hosted(behind, model, monkeypatch) -> Iterator[Faulty]:
    with Faulty(behind.url) as faulty:
        monkeypatch.setenv("TINKER_BASE_URL", faulty.url)
        monkeypatch.setenv("TINKER_API_KEY", behind.key)
        monkeypatch.setenv("CRUCIBLE_TINKER_BASE", model)
        yield faulty


def prepare(suite: Any, **adapters: dict[str, Any]) -> None:
    (suite.path / "test_sums.py").unlink(missing_ok=True)
    suite.test(TEST_REPLIES, name="test_replies")
    suite.adapters({name: {"backend": "tinker", **table} for name, table in adapters.items()})


def train(suite: Any, *arguments: str) -> str:
    """An adapter trained through the fixtures; its path."""
    (suite.path / "test_sums.py").unlink(missing_ok=True)
    suite.test(
        GOT
        + """
    @pytest.mark.parametrize("training_client", [{"rank": 4}], indirect=True)
    def test_train(training_client, tokenizer, rest_client):
        import tinker
        tokens = tokenizer.encode("The answer is five.")
        inputs = {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)}
        datum = tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)
        for _ in range(3):
            got(training_client.forward_backward([datum], "cross_entropy"))
            got(training_client.optim_step(tinker.AdamParams(learning_rate=0.05)))
        path = got(training_client.save_weights_for_sampler("v2", ttl_seconds=3600)).path
        assert path in [one.tinker_path for one in got(rest_client.list_user_checkpoints()).checkpoints]
        pathlib.Path("path.txt").write_text(path)
    """,
        name="test_train",
    )
    result = suite.run_apart(*arguments)
    result.assert_outcomes(passed=1)
    (suite.path / "test_train.py").unlink()
    return (suite.path / "path.txt").read_text()


def test_the_whole_flow_on_the_hosted_service(suite, hosted, behind, model):
    path = train(suite, HOSTED)
    prepare(suite, base={"base_model": model}, v2={"uri": path})
    (suite.path / "crucible.toml").write_text(
        (suite.path / "crucible.toml").read_text().replace('backend = "tinker"\nuri', "uri")
    )
    suite.write_rows(
        "questions.jsonl", [{"id": f"q{k}", "input": [{"role": "user", "content": f"{k}?"}]} for k in range(6)]
    )
    result = suite.run_apart(HOSTED, "--crucible-adapter=v2", "--compare=base")

    result.assert_outcomes(passed=3)
    assert len(suite.calls()) == 12
    assert hosted.keys == {behind.key, ""}  # and none where health is asked after
    assert hosted.seen["/api/v1/asample"] == 12
    assert not (suite.path / ".crucible" / "tinker").exists()
    typed = suite.run_apart(HOSTED, f"--crucible-adapter={path}")
    typed.assert_outcomes(passed=2)
    assert behind.key not in result.stdout.str() + typed.stdout.str()


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (None, "the hosted Tinker service needs a key: set TINKER_API_KEY, or leave crucible_tinker = local"),
        ("sk-of-somebody-else", "TINKER_API_KEY is not a Tinker key: it must start with 'tml-'"),
        ("tml-unknown", "Tinker did not open a session: *is not this server's: use the one it printed"),
    ],
    ids=["none", "wrong prefix", "unknown"],
)
def test_an_invalid_key_stops_an_adapter_before_any_request(suite, hosted, model, monkeypatch, key, sentence):
    monkeypatch.delenv("TINKER_API_KEY")
    if key:
        monkeypatch.setenv("TINKER_API_KEY", key)
    prepare(suite, base={"base_model": model})
    result = suite.run_apart(HOSTED, "--crucible-adapter=base")

    suite.refuses(result, sentence)
    assert str(key) not in result.stdout.str() + result.stderr.str()


def test_a_dead_proxy_before_another_service_is_named(suite, model, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("TINKER_BASE_URL", "http://tinker.invalid")
    monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
    prepare(suite, base={"base_model": model})

    suite.refuses(
        suite.run_apart(HOSTED, "--crucible-adapter=base"),
        "Tinker at http://tinker.invalid does not answer: *(through the proxy of HTTP_PROXY)",
    )


@pytest.fixture
def mortal(suite, base, monkeypatch, tmp_path) -> Iterator[LocalServer]:
    """A service of one test, and the suite that asks it."""
    with LocalServer.start(tmp_path / "hosted", base=base) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        monkeypatch.setenv("TINKER_API_KEY", server.key)
        prepare(suite, base={"base_model": base_name(tmp_path / "hosted")})
        yield server


@pytest.mark.slow  # the SDK waits for ten seconds
def test_a_service_that_is_killed_in_mid_run_loses_the_rest_and_resume_finishes_it(
    suite, base, mortal, monkeypatch, tmp_path
):
    (suite.path / "conftest.py").write_text(
        f"""
{IMPATIENT}
import os, signal

def pytest_crucible_observed(sample):
    if sample == "q08":
        os.kill({mortal.process.pid}, signal.SIGKILL)
"""
    )
    with in_time(30):
        result = suite.run_apart(HOSTED, "--crucible-adapter=base", "--crucible-concurrency=4")
    answered = len(suite.calls())

    assert 0 < answered < 20
    result.stdout.fnmatch_lines(["*Tinker does not answer any more: *", "*length >= 0*undecided*"])

    (suite.path / "conftest.py").unlink()
    with LocalServer.start(tmp_path / "hosted", base=base) as again:
        monkeypatch.setenv("TINKER_BASE_URL", again.url)
        monkeypatch.setenv("TINKER_API_KEY", again.key)
        result = suite.run_apart(HOSTED, "--crucible-adapter=base", "--crucible-resume")

    result.stdout.fnmatch_lines(["length >= 0 * 20 *met*"])
    assert len(suite.calls()) == 20
    assert sorted({line.split()[1] for line in suite.calls()}) == [f"q{k:02}" for k in range(20)]


# Invalid checkpoints


@pytest.mark.slow
def test_a_missing_expired_or_foreign_checkpoint_is_reported_in_one_sentence(
    suite, hosted, directory, checkpoint, tmp_path
):
    (about,) = directory.glob(f"checkpoints/*/sampler_weights/{tmp_path.name}/checkpoint.json")
    text = about.read_text()

    def assert_refused(sentence: str, **table: str) -> None:
        prepare(suite, v2={"model_path": checkpoint, **table})
        suite.refuses(suite.run_apart(HOSTED, "--crucible-adapter=v2"), sentence)

    assert_refused(
        f"adapter 'v2' has base_model 'Qwen/Qwen3-8B', but {checkpoint} was trained on '*tiny-*': write that, or leave "
        "base_model out",
        base_model="Qwen/Qwen3-8B",
    )
    assert_refused("*unknown checkpoint tinker://r/sampler_weights/gone", model_path="tinker://r/sampler_weights/gone")
    about.write_text(text.replace('"base_sha256": "', '"base_sha256": "0'))
    assert_refused(
        f"Tinker did not open a model to sample from: {checkpoint} belongs to another base model, crucible/tiny (0*); *"
    )
    about.write_text(text.replace('"expires": ', '"expires": 1.0, "ignored": ').replace('"ignored": ', '"created_": '))
    assert_refused(f"*the description of {checkpoint} cannot be read*")
    expired = [line if '"expires"' not in line else ' "expires": 1.0,' for line in text.splitlines()]
    about.write_text("\n".join(expired))
    assert_refused(f"*the checkpoint {checkpoint} expired at 1970-01-01T00:00:01+00:00")
    assert "/api/v1/asample" not in hosted.seen


def test_a_checkpoint_of_the_base_that_is_named_is_used(suite, hosted, model, checkpoint):
    named = {"model_path": checkpoint, "base_model": model}
    prepare(suite, v2=named, short={**named, "base_model": "crucible/tiny"})

    suite.run_apart(HOSTED, "--crucible-adapter=v2").assert_outcomes(passed=2)
    suite.run_apart(HOSTED, "--crucible-adapter=short").assert_outcomes(passed=2)


# Several services in one session


@pytest.mark.slow
def test_adapters_may_name_services_of_their_own(suite, hosted, behind, model, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(Path(os.environ["CRUCIBLE_TINKER_BASE"])))
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", "base")
    write_tiny_base(suite.path / "base", seed=1)
    monkeypatch.delenv("TINKER_API_KEY")
    monkeypatch.delenv("TINKER_BASE_URL")
    monkeypatch.setenv("THEIR_KEY", behind.key)
    theirs = {"base_url": f"{hosted.url}/", "api_key_env": "THEIR_KEY", "project": "proj-1"}
    prepare(
        suite,
        here={"base_model": "crucible/tiny"},
        there={"base_model": model, **theirs},
        same={"base_model": model, **theirs},
    )
    result = suite.run_apart("--crucible-adapter=there", "--compare=here", "--crucible-json=run.json")

    result.assert_outcomes(passed=3)
    assert hosted.seen["/api/v1/asample"] == 20
    assert hosted.seen["/api/v1/create_session"] == 1
    assert (suite.path / ".crucible" / "tinker").exists()
    output = result.stdout.str() + result.stderr.str() + (suite.path / "run.json").read_text()
    assert behind.key not in output
    result = suite.run_apart("--crucible-adapter=there", "--compare=same")
    suite.refuses(result, "adapters 'there' and 'same' are the same checkpoint *")
    assert hosted.seen["/api/v1/create_session"] == 2  # one for both


@pytest.mark.slow  # the SDK waits for ten seconds
def test_a_dead_service_stops_its_experiment_and_keeps_the_others_replies(suite, hosted, behind, model, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", "base")
    write_tiny_base(suite.path / "base", seed=1)
    monkeypatch.setenv("THEIR_KEY", behind.key)
    prepare(
        suite,
        here={"base_model": "crucible/tiny"},
        there={"base_model": model, "base_url": hosted.url, "api_key_env": "THEIR_KEY"},
    )
    hosted.fault = Fault("cut", after=20)
    (suite.path / "conftest.py").write_text(IMPATIENT)
    with in_time(40):
        result = suite.run_apart("--crucible-adapter=here", "--compare=there", "--crucible-concurrency=4")

    answered = sum(line.startswith("here") for line in suite.calls())
    assert answered > 0
    result.stdout.fnmatch_lines(
        [
            f"*Tinker at {hosted.url} does not answer any more: *resume with --crucible-resume when it is back",
            f"length >= 0 * {answered} * undecided",
        ]
    )


LEAKS = """
    import logging, os, pathlib, sys, warnings
    import pytest

    KEYS = [os.environ["THEIR_KEY"]]

    @pytest.fixture
    def keys(local_tinker):
        return [*KEYS, local_tinker.key]

    @pytest.fixture
    def broken(keys):
        raise RuntimeError(f"1 fixture {keys}")

    def test_fixture(broken):
        pass

    def test_local_variable(keys):
        mine = {"2 local": keys}
        assert not mine

    def test_assertion(keys):
        assert " ".join(keys) == "3 assertion"

    def test_output(keys):
        print("4 stdout", *keys)
        print("5 stderr", *keys, file=sys.stderr)
        os.write(1, f"6 descriptor {keys}".encode())
        raise ValueError

    def test_log(keys):
        logging.getLogger("any").error("7 log %s", keys)
        assert not keys

    def test_warning(keys):
        warnings.warn(f"8 warning {keys}")

    def test_skip(keys):
        pytest.skip(f"9 skip {keys}")

    @pytest.mark.xfail
    def test_xfail(keys):
        pytest.xfail(f"10 xfail {keys}")

    def test_property(keys, record_property):
        record_property("11 property", keys)

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.score_bounds(length=(0, 100_000))
    @pytest.mark.quality_target("length >= 0")
    @pytest.mark.ab_compare("length")
    async def test_replies(sample, sampler, score, keys):
        reply = await sampler.generate(sample.input, max_tokens=4)
        if sample.id == "q01":
            raise RuntimeError(f"12 lost {keys}")
        if sample.id == "q02":
            assert not keys, f"13 failed {keys}"
        score(length=3, label=f"14 label {keys}")
        return f"15 reply {keys}"

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.score_bounds(length=(0, 100_000))
    @pytest.mark.quality_target("length >= 0")
    async def test_refused(sample, sampler, score, keys):
        raise RuntimeError(f"16 all lost {keys}")

    @pytest.fixture(scope="session")
    def late():
        yield
        raise RuntimeError(f"17 end of session {KEYS}")

    def test_late(late):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_key_that_is_planted_everywhere_is_in_no_output(suite, hosted, behind, model, monkeypatch, workers):
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", "base")
    monkeypatch.setenv("THEIR_KEY", behind.key)
    monkeypatch.delenv("TINKER_API_KEY")
    write_tiny_base(suite.path / "base", seed=1)
    prepare(
        suite,
        here={"base_model": "crucible/tiny"},
        there={"base_model": model, "base_url": hosted.url, "api_key_env": "THEIR_KEY"},
    )
    suite.test(LEAKS, name="test_leaks")
    loud = ("-W", "default", "-vv", "--showlocals", "-rA", "--junitxml=run.xml", "-o", "junit_logging=all")
    arms = ("--crucible-adapter=there", "--compare=here", "--crucible-json=run.json")
    result = suite.run_apart("test_leaks.py", *loud, *arms, *workers)
    alone = suite.run_apart(
        "test_leaks.py", "-k", "test_replies", *arms, "--crucible-sample=q01", *loud, "--junitxml=alone.xml"
    )

    written = b"".join(
        path.read_bytes()
        for path in (*suite.path.glob("*.xml"), *suite.path.glob("run.*"), *(suite.path / ".crucible").glob("*.db*"))
    ).decode(errors="replace")
    text = "".join(entry.stdout.str() + entry.stderr.str() for entry in (result, alone)) + written
    planted = re.findall(r"\d+ [a-z]+", " ".join(re.findall(r'f?"(\d+ [a-z]+)', LEAKS)))

    assert len(planted) == 17
    assert [entry for entry in planted if entry not in text] == []  # else the key was not where it should be hidden
    assert text.count("(key hidden)") > 30
    for part in re.findall(r"tml-[\w-]+|[0-9a-f]{12,}", behind.key):
        assert part not in text
    assert not re.findall(r"tml-[0-9a-f]{8,}", text)
