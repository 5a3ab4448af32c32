"""Training an adapter: it learns, stops at nonsense, and goes on from a checkpoint as if it had not stopped."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_model import SHA256, SHAPE, TOKENIZER, tiny_data, tiny_engine, tiny_weights

from pytest_crucible.local_model import checkpoints, training
from pytest_crucible.local_model.checkpoints import Adapter, LoraSpec
from pytest_crucible.local_model.config import Datum, Shape, check_weights
from pytest_crucible.local_model.engine import Engine, Trainer
from pytest_crucible.local_model.losses import AdamParams, NotFinite, find_loss
from pytest_crucible.local_model.sampling import SamplingParams

RATE = AdamParams(learning_rate=5e-3)
GREEDY = SamplingParams(max_tokens=10, temperature=0, stop=())


def steps(trainer: Trainer, count: int, data: list[Datum] | None = None) -> list[float]:
    """Losses before each of so many steps."""
    losses = []
    for _ in range(count):
        losses.append(trainer.forward_backward(data or tiny_data(), "cross_entropy").loss)
        trainer.optim_step(RATE)
    return losses


def copy_adapter(adapter: Adapter) -> Adapter:
    return Adapter(adapter.spec, {name: item.copy() for name, item in adapter.factors.items()})


def same(item: Adapter, other: Adapter) -> bool:
    return item.spec == other.spec and all((item.factors[name] == other.factors[name]).all() for name in other.factors)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return tiny_engine()


@pytest.fixture
def trainer(engine) -> Trainer:
    return engine.trainer(LoraSpec(rank=4, seed=3))


# --- learning ---


def test_a_step_in_two_threads_has_the_bits_of_one_thread(engine, trainer, monkeypatch):
    steps(trainer, 1)
    monkeypatch.setattr(training, "POSITIONS", 40)
    data, loss = tiny_data(9), find_loss("cross_entropy")
    folded = engine.fold_weights(trainer.adapter)

    item, two = (
        training.train(trainer.adapter, engine.weights, folded, SHAPE, data, loss, {}, threads=count)
        for count in (1, 2)
    )

    assert (two.loss, two.metrics) == (item.loss, item.metrics)
    assert {name: value.tobytes() for name, value in two.gradients.items()} == {
        name: value.tobytes() for name, value in item.gradients.items()
    }
    assert [output["logprobs"].tolist() for output in two.outputs] == [
        output["logprobs"].tolist() for output in item.outputs
    ]
    data[4] = Datum(data[4].tokens, {**data[4].inputs, "weights": data[4].inputs["weights"] * 1e38})
    with pytest.raises(NotFinite, match="the cross_entropy loss is inf"):
        training.train(trainer.adapter, engine.weights, folded, SHAPE, data, loss, {}, threads=2)


def test_twenty_steps_cut_the_loss_by_four_fifths(engine):
    trainer = engine.trainer(LoraSpec(rank=8))

    losses = steps(trainer, 20)

    assert trainer.forward_backward(tiny_data(), "cross_entropy", forward_only=True).loss <= 0.2 * losses[0]


def test_a_trained_text_is_the_greedy_reply(engine):
    trainer = engine.trainer(LoraSpec(rank=8))
    words = TOKENIZER.encode("the quick brown fox")
    steps(trainer, 30, [Datum(words[:-1], {"target_tokens": words[1:], "weights": np.ones(len(words) - 1)})])

    (reply,) = trainer.sampler().sample([words[:2]], SamplingParams(max_tokens=len(words) - 2, temperature=0))

    assert reply.text == TOKENIZER.decode(words[2:])


def test_the_seed_decides_the_adapter(engine):
    first, again, other = (engine.trainer(LoraSpec(rank=4, seed=seed)).adapter for seed in (1, 1, 2))

    assert same(first, again)
    assert not (first.factors["layers.0.up.A"] == other.factors["layers.0.up.A"]).any()


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({"train_mlp": False, "train_unembed": False}, {"qkv", "out"}),
        ({"train_attn": False, "train_unembed": False}, {"up", "down"}),
        ({"train_attn": False, "train_mlp": False}, {"unembedding"}),
        ({}, {"qkv", "out", "up", "down", "unembedding"}),
    ],
)
def test_only_the_requested_matrices_are_trained(engine, parts, names):
    trainer = engine.trainer(LoraSpec(rank=2, **parts))

    losses = steps(trainer, 4)

    assert {name.split(".")[-2] for name in trainer.adapter.factors} == names
    assert losses[-1] < losses[0]


def test_the_base_stays_as_it_was(trainer):
    steps(trainer, 2)

    check_weights(trainer.engine.weights, SHAPE)
    assert all((item == tiny_weights()[name]).all() for name, item in trainer.engine.weights.items())


def test_gradients_add_up_until_the_step(engine):
    together, apart = (engine.trainer(LoraSpec(rank=4)) for _ in range(2))
    data = tiny_data()

    together.forward_backward(data, "cross_entropy")
    for datum in data:
        apart.forward_backward([datum], "cross_entropy")
    norms = [item.optim_step(RATE)["grad_norm:mean"] for item in (together, apart)]

    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_cutting_a_batch_changes_nothing(engine, trainer, monkeypatch):
    data = tiny_data(6)
    whole = trainer.forward_backward(data, "cross_entropy")
    monkeypatch.setattr(training, "POSITIONS", 50)

    cut = engine.trainer(LoraSpec(rank=4, seed=3)).forward_backward(data, "cross_entropy")

    assert cut.loss == pytest.approx(whole.loss, rel=1e-6)
    for item, other in zip(cut.outputs, whole.outputs, strict=True):
        np.testing.assert_allclose(item["logprobs"], other["logprobs"], atol=2e-5)
    for name, gradient in whole.gradients.items():
        np.testing.assert_allclose(
            cut.gradients[name], gradient, atol=1e-4 * np.abs(whole.gradients["layers.0.up.B"]).max()
        )


def test_there_is_a_logprob_for_every_target(engine, trainer):
    result = trainer.forward_backward(tiny_data(), "cross_entropy")

    for datum, output in zip(tiny_data(), result.outputs, strict=True):
        text = [*datum.tokens, int(datum.inputs["target_tokens"][-1])]
        np.testing.assert_allclose(output["logprobs"], engine.sampler().logprobs(text).logprobs[1:], atol=2e-5)
        assert output["logprobs"].dtype == np.float32
    assert result.metrics == {"loss:sum": result.loss}


@pytest.mark.parametrize("weights", [0.0, 1.0])
def test_a_pass_without_outputs_has_the_same_gradients(engine, trainer, weights):
    data = [
        Datum(datum.tokens, {**datum.inputs, "weights": weights * datum.inputs["weights"]}) for datum in tiny_data()
    ]
    whole = trainer.forward_backward(data, "cross_entropy")
    short = engine.trainer(LoraSpec(rank=4, seed=3)).forward_backward(data, "cross_entropy", outputs=False)

    assert (short.loss, short.metrics, short.outputs) == (whole.loss, whole.metrics, [{}] * len(data))
    for name, gradient in whole.gradients.items():
        np.testing.assert_array_equal(short.gradients[name], gradient)


def test_forward_only_leaves_no_gradients(trainer):
    assert trainer.forward_backward(tiny_data(), "cross_entropy", forward_only=True).gradients == {}
    with pytest.raises(ValueError, match="no gradients: call forward_backward before each optim_step"):
        trainer.optim_step(RATE)


def test_a_batch_that_counts_nothing_has_no_gradient(trainer):
    data = [Datum([1, 2], {"target_tokens": np.array([2, 3]), "weights": np.zeros(2)})]

    result = trainer.forward_backward(data, "cross_entropy")

    assert result.loss == 0
    assert len(result.outputs[0]["logprobs"]) == 2
    assert trainer.optim_step(RATE) == {"grad_norm:mean": 0.0}


def test_several_targets_per_position_are_several_losses(engine):
    item, other = (engine.trainer(LoraSpec(rank=4)) for _ in range(2))
    targets, weights = np.array([[3, 4], [5, 5], [6, 1]]), np.array([[0.2, 0.8], [1.0, 0.5], [0.0, 0.0]])

    together = item.forward_backward(
        [Datum([1, 2, 3], {"target_tokens": targets, "weights": weights})], "cross_entropy"
    )
    columns = [Datum([1, 2, 3], {"target_tokens": targets[:, at], "weights": weights[:, at]}) for at in (0, 1)]
    apart = other.forward_backward(columns, "cross_entropy")

    assert together.loss == pytest.approx(apart.loss, rel=1e-5)
    assert together.outputs[0]["logprobs"].shape == (3, 2)
    for name, gradient in apart.gradients.items():
        np.testing.assert_allclose(together.gradients[name], gradient, atol=1e-5 * max(1, np.abs(gradient).max()))


# --- nonsense ---


def test_a_loss_that_is_not_finite_is_refused_and_changes_nothing(trainer):
    steps(trainer, 1)
    before = copy_adapter(trainer.adapter)
    waiting = trainer.forward_backward(tiny_data(), "cross_entropy").gradients
    far = {"target_tokens": np.array([2, 3]), "logprobs": np.full(2, -1e4), "advantages": np.ones(2)}

    with pytest.raises(ValueError, match="the importance_sampling loss is -inf"):
        trainer.forward_backward([Datum([1, 2], far)], "importance_sampling")

    assert same(trainer.adapter, before)
    assert trainer.adam.steps == 1
    assert all((trainer._gradients[name] == item).all() for name, item in waiting.items())
    trainer.optim_step(RATE)
    trainer.adapter.factors["layers.0.up.B"][0, 0] = np.nan
    with pytest.raises(ValueError, match="the cross_entropy loss is nan"):
        trainer.forward_backward(tiny_data(), "cross_entropy")


TARGETS = {"target_tokens": np.array([2, 3]), "weights": np.ones(2)}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "no data to train on"),
        ([Datum([], TARGETS)], r"datum 0: it has 0 tokens, expected 1 to 160"),
        ([Datum([1] * 161, TARGETS)], "datum 0: it has 161 tokens"),
        ([Datum([1, 2], {"weights": np.ones(2)})], "datum 0: target_tokens are missing"),
        ([Datum([1, 2], TARGETS), Datum([1], TARGETS)], "datum 1: target_tokens has 2 entries for 1 tokens"),
        ([Datum([1, 999], TARGETS)], "datum 0: tokens must be 0 to 297, not 1 to 999"),
        ([Datum([1, -2], TARGETS)], "datum 0: tokens must be 0 to 297, not -2 to 1"),
        ([Datum([1.5, 2], TARGETS)], "datum 0: tokens must be whole numbers"),
        ([Datum([1, 2], TARGETS | {"target_tokens": [2, 298]})], "datum 0: target_tokens must be 0 to 297"),
        ([Datum([1, 2], TARGETS | {"weights": [1, np.nan]})], "datum 0: weights is not finite everywhere"),
        ([Datum([1, 2], TARGETS), Datum([1, 2], {"target_tokens": [2, 3]})], "weights is missing in 1 of 2 data"),
        ([Datum([1, 2], TARGETS), Datum([1], {"target_tokens": [[1, 2]], "weights": [[1, 2]]})], "2 different shapes"),
    ],
)
def test_data_that_cannot_be_trained_on_are_refused(trainer, data, sentence):
    with pytest.raises(ValueError, match=sentence):
        trainer.forward_backward(data, "cross_entropy")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rank": 0}, "the rank must be 1 to 512"),
        ({"seed": -1}, "the seed must be 0 or more"),
        (
            {"train_attn": False, "train_mlp": False, "train_unembed": False},
            "nothing to train: attention, MLP and unembedding are all off",
        ),
    ],
)
def test_invalid_lora_settings_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        LoraSpec(**settings)


# --- checkpoints ---


def resume(engine, trainer, path, *, optimizer=True):
    """A new trainer of the same LoRA that goes on from a saved state."""
    resumed = engine.trainer(trainer.adapter.spec)
    resumed.load_state(path, optimizer=optimizer)
    return resumed


def test_a_resumed_training_equals_an_uninterrupted_one(engine, trainer, tmp_path):
    steps(trainer, 3)
    trainer.save_state(tmp_path / "state.safetensors")
    losses = steps(trainer, 3)

    resumed = resume(engine, trainer, tmp_path / "state.safetensors")

    assert steps(resumed, 3) == losses
    assert same(resumed.adapter, trainer.adapter)
    assert resumed.adam.steps == 6
    assert all((resumed.adam.second[name] == item).all() for name, item in trainer.adam.second.items())


def test_state_is_replaced_when_saved_again_and_loaded_with_or_without_the_optimiser(engine, trainer, tmp_path):
    for _ in range(2):
        steps(trainer, 1)
        trainer.save_state(tmp_path)
    resumed, new = resume(engine, trainer, tmp_path), resume(engine, trainer, tmp_path, optimizer=False)
    trainer.forward_backward(tiny_data(), "cross_entropy")
    trainer.load_state(tmp_path)

    assert os.listdir(tmp_path) == ["training.safetensors"]
    assert same(resumed.adapter, trainer.adapter)
    assert same(new.adapter, trainer.adapter)
    assert (resumed.adam.steps, new.adam.steps, new.adam.first) == (2, 0, {})
    # Gradients that waited are forgotten.
    with pytest.raises(ValueError, match="no gradients"):
        trainer.optim_step(RATE)


def test_saved_weights_sample_as_the_trainer_did(engine, trainer, tmp_path):
    steps(trainer, 3)
    trainer.save_sampler(tmp_path / "v1.safetensors")
    trainer.save_state(tmp_path)
    sampler, at_once = engine.sampler(tmp_path / "v1.safetensors"), trainer.sampler()
    steps(trainer, 1)

    replies = sampler.sample([[1, 2]], GREEDY)

    assert replies == at_once.sample([[1, 2]], GREEDY) == engine.sampler(tmp_path).sample([[1, 2]], GREEDY)
    assert replies != trainer.sampler().sample([[1, 2]], GREEDY)


def test_sampler_weights_are_never_changed(trainer, tmp_path):
    file = tmp_path / "v1.safetensors"
    trainer.save_sampler(file)
    written = file.read_bytes()
    steps(trainer, 1)

    with pytest.raises(FileExistsError, match=r"v1\.safetensors exists already: sampler weights are never changed"):
        trainer.save_sampler(file)

    assert file.read_bytes() == written
    assert os.listdir(tmp_path) == ["v1.safetensors"]


def test_without_links_weights_are_saved_all_the_same_and_never_overwritten(trainer, tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError("links are not supported")

    monkeypatch.setattr(os, "link", no_links)
    trainer.save_sampler(tmp_path / "v1.safetensors")

    assert os.listdir(tmp_path) == ["v1.safetensors"]
    with pytest.raises(FileExistsError, match="exists already"):
        trainer.save_sampler(tmp_path / "v1.safetensors")


def test_a_name_taken_meanwhile_is_not_overwritten(trainer, tmp_path, monkeypatch):
    file = tmp_path / "v1.safetensors"
    real = checkpoints.save

    def slow(*arguments, **named):
        file.write_bytes(b"somebody else's")
        return real(*arguments, **named)

    monkeypatch.setattr(checkpoints, "save", slow)

    with pytest.raises(FileExistsError, match="exists already"):
        trainer.save_sampler(file)
    assert file.read_bytes() == b"somebody else's"


def other_engine(shape: Shape = SHAPE, sha256: str = SHA256) -> Engine:
    return Engine(TOKENIZER, shape, tiny_weights(shape), sha256)


WIDE = Shape(SHAPE.vocabulary, 64, 2, 4, 64, 160)


@pytest.mark.parametrize(
    ("damage", "loader", "sentence"),
    [
        (None, other_engine(sha256="cd" * 32), "belongs to base model abababababab, this one is cdcdcdcdcdcd"),
        (None, other_engine(WIDE), r"layers\.0\.qkv\.A has \(32, 4\), a rank of 4 on this base needs \(64, 4\)"),
        (lambda file: file.write_bytes(b""), other_engine(), "cannot be read as safetensors"),
        (lambda file: file.write_bytes(b"nonsense" * 9), other_engine(), "cannot be read as safetensors"),
    ],
    ids=["another base", "another shape", "empty", "nonsense"],
)
def test_files_that_do_not_fit_are_refused(trainer, tmp_path, damage, loader, sentence):
    file = tmp_path / "v1.safetensors"
    trainer.save_sampler(file)
    if damage is not None:
        damage(file)

    with pytest.raises(ValueError, match=rf"v1\.safetensors.*{sentence}"):
        loader.sampler(file)


def test_only_a_state_of_the_same_lora_is_loaded(engine, trainer, tmp_path):
    trainer.save_state(tmp_path)
    with pytest.raises(ValueError, match=r"was trained with LoraSpec\(rank=4, .*not with LoraSpec\(rank=5"):
        engine.trainer(LoraSpec(rank=5)).load_state(tmp_path)

    trainer.save_sampler(tmp_path / "v1.safetensors")
    with pytest.raises(
        ValueError, match=r"v1\.safetensors has an adapter but no training state: use a file that save_state wrote"
    ):
        resume(engine, trainer, tmp_path / "v1.safetensors")
    with pytest.raises(FileNotFoundError, match=r"v9\.safetensors does not exist"):
        engine.sampler(tmp_path / "v9.safetensors")


# --- the base ---


@pytest.fixture
def base(tmp_path):
    checkpoints.save_base(tmp_path, tiny_weights(), SHAPE)
    TOKENIZER.save(tmp_path / "tokenizer.json")
    return tmp_path


def test_a_base_is_halves_on_disk_and_singles_in_memory(base):
    engine = Engine.load(base)

    assert {item.dtype for item in load_file(base / "model.safetensors").values()} == {np.dtype("float16")}
    assert engine.shape == SHAPE
    assert engine.tokenizer == TOKENIZER
    assert len(engine.base_sha256) == 64
    for name, item in tiny_weights().items():
        assert engine.weights[name].dtype == np.float32
        assert (engine.weights[name] == item.astype(np.float16)).all()


def test_a_base_without_its_shape_or_a_weight_is_refused(base):
    file = base / "model.safetensors"
    weights, header = load_file(file), {name: str(getattr(SHAPE, name)) for name in Shape.__dataclass_fields__}
    save_file(weights, file)
    with pytest.raises(ValueError, match="is not a base model: its header has no 'vocabulary'"):
        Engine.load(base)

    save_file({name: values for name, values in weights.items() if name != "norm"}, file, header)
    with pytest.raises(ValueError, match=r"model\.safetensors: these weights are missing or unknown: norm"):
        Engine.load(base)


def test_a_tokenizer_of_another_model_is_refused():
    wide = Shape(1024, 32, 1, 4, 64, 16)

    with pytest.raises(ValueError, match="the tokenizer has 298 ids, the model 1024"):
        Engine(TOKENIZER, wide, tiny_weights(wide), SHA256)


@pytest.mark.parametrize("sizes", [(8, 30, 1, 4, 8, 8), (8, 32, 0, 4, 8, 8)])
def test_invalid_shapes_are_refused(sizes):
    with pytest.raises(ValueError, match=r"cannot be split into 4 heads|layers must be at least 1"):
        Shape(*sizes)


def test_an_adapter_tells_its_steps_and_the_norm_of_its_change():
    trainer = tiny_engine().trainer(LoraSpec(rank=4))
    for _ in range(3):
        trainer.forward_backward(tiny_data(2), "cross_entropy")
        trainer.optim_step(AdamParams(learning_rate=1e-2))
    base, merged = trainer.engine.weights, trainer.adapter.merge_into(trainer.engine.weights)
    changes = [
        merged[name] - (base["embedding"].T if name == "unembedding" else base[name])
        for name in merged
        if name not in base or merged[name] is not base[name]
    ]

    assert trainer.steps == 3
    assert trainer.adapter.norm == pytest.approx(
        math.sqrt(sum(float((change**2).sum()) for change in changes)), rel=1e-3
    )
