"""Uploads: a download becomes a checkpoint bit for bit; every broken archive is one sentence, and leaves nothing."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save
from tiny_model import tiny_data, tiny_engine

from pytest_crucible.local_model.checkpoints import EXTERNAL_FILE, LoraSpec, load_training, save_sampler
from pytest_crucible.local_model.engine import make_stand_in
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.local_model.sampling import SamplingParams
from pytest_crucible.local_model.server.archive import CONFIG_FILE, Archive, upload_adapter

ENGINE = tiny_engine()
PARAMS = SamplingParams(max_tokens=12, temperature=1.0, seed=3)


def train_adapter(engine=ENGINE):
    trainer = engine.trainer(LoraSpec(rank=4, seed=1))
    trainer.forward_backward(tiny_data(), "cross_entropy")
    trainer.optim_step(AdamParams(learning_rate=0.05))
    return trainer


@pytest.fixture
def archive(tmp_path) -> Archive:
    return Archive(tmp_path / "tinker")


def download(folder: Path, trainer=None, **config: object) -> Path:
    """Write the two files of a download."""
    trainer = trainer or train_adapter()
    folder.mkdir()
    trainer.save_sampler(folder / EXTERNAL_FILE)
    described = {"base_model_name_or_path": "crucible/tiny", "base_sha256": trainer.engine.base_sha256, "r": 4}
    (folder / CONFIG_FILE).write_text(json.dumps({**described, **config}))
    return folder


def tar(folder: Path, *more: tarfile.TarInfo, target: str = "blue.tar", prefix: str = "") -> Path:
    archive = folder.parent / target
    with tarfile.open(archive, "w") as file:
        for name in (CONFIG_FILE, EXTERNAL_FILE):
            file.add(folder / name, arcname=prefix + name)
        for member in more:
            file.addfile(member, io.BytesIO(bytes(member.size)))
    return archive


@pytest.mark.parametrize("form", ["directory", "tar", "tar of ."])
def test_an_upload_has_the_weights_of_the_download_and_a_new_optimizer(archive, tmp_path, form):
    trainer = train_adapter()
    folder = download(tmp_path / "blue", trainer)
    source = folder if form == "directory" else tar(folder, prefix="./" if form == "tar of ." else "")

    uploaded = upload_adapter(source, tmp_path / "tinker", ENGINE)

    checkpoint = archive.find(uploaded.path)
    assert str(uploaded.path) == f"tinker://upload-{uploaded.sha256[:16]}/weights/blue"
    assert checkpoint.info.user_metadata == {"uploaded_from": source.name, "sha256": uploaded.sha256}
    adapter, adam = load_training(checkpoint.directory, ENGINE.shape, ENGINE.base_sha256)
    assert adapter.spec == trainer.adapter.spec
    assert {name: part.tobytes() for name, part in adapter.factors.items()} == {
        name: part.tobytes() for name, part in trainer.adapter.factors.items()
    }
    assert (adam.steps, adam.first, adam.second) == (0, {}, {})
    prompts = [[40, 41, 42]]
    assert ENGINE.sampler(checkpoint.directory).sample(prompts, PARAMS) == trainer.sampler().sample(prompts, PARAMS)
    # Downloaded again, it is the same file.
    save_sampler(tmp_path / "again", adapter, ENGINE.base_sha256)
    assert (tmp_path / "again").read_bytes() == (folder / EXTERNAL_FILE).read_bytes()


def test_a_file_has_one_path_however_often_it_is_uploaded(archive, tmp_path):
    folder = download(tmp_path / "blue")
    first = upload_adapter(folder, tmp_path / "tinker", ENGINE)
    written = archive.find(first.path).info.created
    second = upload_adapter(tar(folder), tmp_path / "tinker", ENGINE)
    other = upload_adapter(folder, tmp_path / "tinker", ENGINE, "green")

    assert (first.is_new, second.is_new, other.is_new) == (True, False, True)
    assert (first.path, archive.find(first.path).info.created) == (second.path, written)
    assert (other.path.run, other.path.name) == (first.path.run, "green")


def test_an_adapter_of_a_stand_in_keeps_the_name_of_its_model(archive, tmp_path):
    stand_in = make_stand_in(ENGINE)
    folder = download(tmp_path / "blue", train_adapter(stand_in), base_model_name_or_path="Qwen/Qwen3-8B")

    uploaded = upload_adapter(folder, tmp_path / "tinker", ENGINE)

    info = archive.find(uploaded.path).info
    assert (info.base_model, info.base_sha256) == ("Qwen/Qwen3-8B", stand_in.base_sha256)


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    "more",
    [
        member("../../evil.txt", size=5),
        member("/etc/cron.d/evil"),
        member(f"../{EXTERNAL_FILE}"),
        member(EXTERNAL_FILE, tarfile.SYMTYPE),
        member(CONFIG_FILE, tarfile.LNKTYPE),
        member("README.md"),
        member("weights", tarfile.DIRTYPE),
        member("disk", tarfile.BLKTYPE),
    ],
    ids=lambda info: f"{info.name}{info.type!r}",
)
def test_a_tar_file_with_anything_else_is_refused(tmp_path, more):
    source = tar(download(tmp_path / "blue"), more)

    with pytest.raises(
        ValueError,
        match=r"it has a member '.*'; expected adapter_model\.safetensors and adapter_config\.json, as `crucible",
    ):
        upload_adapter(source, tmp_path / "tinker", ENGINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blue", "blue.tar"]


def change_weights(folder: Path, change) -> None:
    file = folder / EXTERNAL_FILE
    file.write_bytes(change(file.read_bytes()))


def rewrite(name: str = "layers.0.qkv.A", **about: object):
    """Return a change of one tensor, and of the header's LoRA."""

    def change(content: bytes) -> bytes:
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        lora = json.loads(metadata["lora"]) | {key: value for key, value in about.items() if key != "tensor"}
        tensors = dict(load(content))
        if "tensor" in about:
            tensors[name] = about["tensor"](tensors[name])
        return bytes(save(tensors, metadata={**metadata, "lora": json.dumps(lora)}))

    return change


def with_nan(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values[0, 0] = np.nan
    return values


BFLOAT16 = json.dumps({"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: content[:-100], "adapter_model.safetensors cannot be read as safetensors"),
        (lambda content: content[:7], "adapter_model.safetensors cannot be read as safetensors"),
        (lambda content: b"", "adapter_model.safetensors cannot be read as safetensors"),
        (lambda content: b"PK\x03\x04" + content, "adapter_model.safetensors cannot be read as safetensors"),
        (
            lambda content: save({"base.lora_A.weight": np.ones((4, 8), np.float32)}),
            "is not an adapter of this package",
        ),
        (rewrite(tensor=with_nan), "layers.0.qkv.A is not finite everywhere"),
        (
            rewrite(tensor=lambda values: values[:, :2]),
            r"layers.0.qkv.A has \(32, 2\), a rank of 4 on this base needs",
        ),
        (rewrite(tensor=lambda values: values.astype(np.float64)), "numbers of type float64, expected float32"),
        (rewrite(rank=600), "the rank must be 1 to 512, not 600"),
        (rewrite(rank="4"), "is not an adapter of this package"),
        (rewrite(rank=8), r"has \(32, 4\), a rank of 8 on this base needs"),
        (rewrite(train_attn="yes"), "is not an adapter of this package"),
        (
            lambda content: len(BFLOAT16).to_bytes(8, "little") + BFLOAT16 + b"12",
            "cannot be read as safetensors: .*bfloat16",
        ),
    ],
)
def test_weights_that_do_not_fit_are_one_sentence(tmp_path, change, sentence):
    folder = download(tmp_path / "blue")
    change_weights(folder, change)

    with pytest.raises(ValueError, match=sentence) as raised:
        upload_adapter(folder, tmp_path / "tinker", ENGINE)
    # The sentence names the source, and no file that exists only while it is read.
    assert re.fullmatch(r"[^ ]*/blue cannot be uploaded: [^/]*", str(raised.value))
    assert not (tmp_path / "tinker").exists()


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"base_sha256": None, "base_model_name_or_path": "Qwen/Qwen3-8B"},
            r"of Qwen/Qwen3-8B; the local service has crucible/tiny \(abababab\)",
        ),
        ({"base_sha256": "cd" * 32}, r"of crucible/tiny \(cdcdcdcd\); the local service has"),
        ({"r": 8}, "adapter_config.json has rank 8, adapter_model.safetensors has 4"),
    ],
)
def test_a_configuration_that_does_not_fit_is_one_sentence(tmp_path, config, sentence):
    with pytest.raises(ValueError, match=sentence):
        upload_adapter(download(tmp_path / "blue", **config), tmp_path / "tinker", ENGINE)


def test_a_source_that_is_not_a_download_is_one_sentence(tmp_path):
    folder = download(tmp_path / "blue")
    whole = tar(folder).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.tar").write_text("not a tar file")
    (tmp_path / "empty").mkdir()
    for name, sentence in {
        "none": "it does not exist",
        "cut.tar": "it is not a whole tar file without compression .unexpected end of data.; expected adapter_model",
        "text.tar": "it is not a whole tar file without compression .truncated header.",
        "empty": "it has no adapter_config.json and no adapter_model.safetensors; expected",
    }.items():
        with pytest.raises(ValueError, match=f"{name} cannot be uploaded: {sentence}"):
            upload_adapter(tmp_path / name, tmp_path / "tinker", ENGINE)

    for content in ("{", "[]", "[" * 100_000):
        (folder / CONFIG_FILE).write_text(content)
        with pytest.raises(ValueError, match=r"adapter_config\.json is not"):
            upload_adapter(folder, tmp_path / "tinker", ENGINE)
    with pytest.raises(ValueError, match="'a b' is not a valid checkpoint name"):
        upload_adapter(download(tmp_path / "green"), tmp_path / "tinker", ENGINE, "a b")
    assert not (tmp_path / "tinker").exists()


def test_files_that_are_too_large_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_crucible.local_model.server.archive.LARGEST_BYTES", 1000)
    folder = download(tmp_path / "blue")

    for source in (folder, tar(folder)):
        with pytest.raises(
            ValueError, match=r"adapter_model\.safetensors has [\d,]+ bytes, an adapter has 1,000 at most"
        ):
            upload_adapter(source, tmp_path / "tinker", ENGINE)


def test_the_name_of_a_stand_in_cannot_be_anything(tmp_path):
    folder = download(tmp_path / "blue", train_adapter(make_stand_in(ENGINE)), base_model_name_or_path="\x1b[31mred")

    with pytest.raises(ValueError, match="is not another model's name"):
        upload_adapter(folder, tmp_path / "tinker", ENGINE)
