"""`crucible tinker server --rules`: refusals of the hosted service, with the official SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_crucible.backends.tinker.service import resolve_future
from pytest_crucible.local_model.server.process import LocalServer, ServerOptions, is_in_ci

tinker = pytest.importorskip("tinker")

OTHER = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module", params=["hosted", "local"])
def scene(request, base, tmp_path_factory) -> Iterator[tuple[bool, Any, Any]]:
    """Return a server's rules (True: the hosted service's), a client, and a training client."""
    options = ["--rules", request.param, "--as", OTHER]
    home = tmp_path_factory.mktemp("rules")
    with LocalServer.start(home, base=base, options=options) as server:
        service = tinker.ServiceClient(base_url=server.url, api_key=server.key)
        trainer = resolve_future(service.create_lora_training_client("crucible/tiny", rank=4))
        yield request.param == "hosted", service, trainer
        resolve_future(service.close("success")) if hasattr(service, "close") else service.holder.close()


def sample(client: Any) -> list[int]:
    prompt, params = tinker.ModelInput.from_ints([5, 6, 7]), tinker.SamplingParams(max_tokens=3, seed=1)
    return list(client.sample(prompt=prompt, num_samples=1, sampling_params=params).result().sequences[0].tokens)


def refusal(call: Any) -> str:
    try:
        call()
    except tinker.APIStatusError as error:
        return str(error)
    return ""


def test_training_weights_are_not_sampled_from(scene):
    is_hosted, service, trainer = scene
    state, weights = trainer.save_state("ck").result().path, trainer.save_weights_for_sampler("ck").result().path

    def from_state() -> list[int]:
        return sample(resolve_future(service.create_sampling_client(model_path=state)))

    assert ("does not sample from" in refusal(from_state)) == is_hosted
    own = sample(resolve_future(service.create_sampling_client(model_path=weights)))
    assert len(own) == 3
    if not is_hosted:
        assert from_state() == own


def test_a_checkpoint_is_sampled_from_under_its_own_base(scene):
    is_hosted, service, trainer = scene
    path = trainer.save_weights_for_sampler("own").result().path

    def open_as(base_model: str) -> Any:
        return resolve_future(service.create_sampling_client(model_path=path, base_model=base_model))

    assert ("was trained on crucible/tiny, not on Qwen/Qwen3-8B" in refusal(lambda: open_as(OTHER))) == is_hosted
    assert len(sample(open_as("crucible/tiny"))) == 3


def test_stability_information_that_nothing_records_is_refused(scene):
    is_hosted, service, _ = scene
    try:
        client = resolve_future(service.create_sampling_client(base_model="crucible/tiny", record_stability_info=True))
    except TypeError:
        pytest.skip("this version of the SDK has no record_stability_info")
    assert ("record_stability_info records nothing" in refusal(lambda: sample(client))) == is_hosted


def test_a_loss_that_stands_in_needs_no_stability_information(base, tmp_path):
    options = ["--rules", "hosted", "--stand-in", "stable_reinforce=importance_sampling"]
    with LocalServer.start(tmp_path, base=base, options=options) as server:
        service = tinker.ServiceClient(base_url=server.url, api_key=server.key)
        try:
            client = resolve_future(
                service.create_sampling_client(base_model="crucible/tiny", record_stability_info=True)
            )
        except TypeError:
            pytest.skip("this version of the SDK has no record_stability_info")
        assert len(sample(client)) == 3


@pytest.mark.parametrize(
    ("value", "options", "line"),
    [
        ("true", [], "rules of the hosted service, because CI is set (--rules local lifts them): no sampling from"),
        ("", ["--rules", "hosted"], "rules of the hosted service: no sampling from"),
        ("true", ["--rules", "local"], ""),
        ("false", [], ""),
    ],
)
def test_the_start_names_the_rules(base, tmp_path, monkeypatch, value, options, line):
    monkeypatch.setenv("CI", value)
    with LocalServer.start(tmp_path, base=base, options=options) as server:
        lines = server.log.read_text().splitlines()
        assert [each for each in lines if each.startswith("rules")] == [each for each in lines if line and line in each]
        assert bool(line) == any(each.startswith("rules") for each in lines)


def test_continuous_integration_is_a_variable_that_is_set(monkeypatch, tmp_path):
    for value, expected in (("", False), ("0", False), ("False", False), ("1", True), ("true", True)):
        monkeypatch.setenv("CI", value)
        assert is_in_ci() is expected
    monkeypatch.delenv("CI")
    assert not is_in_ci()
    assert ServerOptions(tmp_path).rules is None
