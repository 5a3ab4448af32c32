"""`crucible tinker` and downloads, with the real SDK and a real service. Skipped where the SDK cannot export weights."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from tinker_http import Http, ask, save

from pytest_crucible.backends.tinker.archives import download_checkpoint, path_parts
from pytest_crucible.backends.tinker.service import KEY
from pytest_crucible.cli import main
from pytest_crucible.commands.tinker import project_services
from pytest_crucible.local_model.checkpoints import load_sampler, load_training
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.server.archive import Archive, CheckpointPath
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import hash_file

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(server, monkeypatch, tmp_path, capsys) -> Run:
    """Run `crucible tinker` in an empty directory against the tests' server, as a service elsewhere."""
    tinker = pytest.importorskip("tinker")
    if not hasattr(tinker, "RestClient"):
        pytest.skip("needs tinker>=0.38")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["tinker", words[0], "--service=hosted", *words[1:]])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def saved(http_client, model) -> str:
    """A training checkpoint, two steps in."""
    return str(save(http_client, model, 1, path="ck1")["path"])


def test_runs_sessions_and_checkpoints_are_listed(run, saved, model, server):
    status, out, err = run("runs", "--limit=1")
    assert (status, err) == (0, f"Tinker: {server.url}\n")
    assert out.splitlines()[0].split() == ["run", "base", "model", "rank", "last", "request", "newest", "checkpoint"]
    assert out.splitlines()[1].startswith(f"{model}  crucible/tiny  4 ")
    assert out.splitlines()[1].endswith("weights/ck1")

    status, out, _ = run("checkpoints", model)
    assert (status, len(out.splitlines())) == (0, 2)
    assert out.splitlines()[1].startswith(f"{saved}  ")
    assert out.splitlines()[1].split()[-2:] == ["no", "never"]

    (listed,) = json.loads(run("checkpoints", model, "--json")[1])
    assert (listed["tinker_path"], listed["public"]) == (saved, False)


def test_a_checkpoint_is_published_expires_and_is_deleted(run, saved, model):
    def facts() -> tuple[Any, ...]:
        listed = json.loads(run("checkpoints", model, "--json")[1])
        return tuple((entry["public"], entry["expires_at"] is None) for entry in listed)

    assert run("publish", saved, "--yes")[:2] == (0, f"{saved} is public\n")
    assert run("ttl", saved, "7200", "--yes")[:2] == (0, f"{saved} expires in 7,200 seconds\n")
    assert facts() == ((True, False),)
    assert run("publish", saved, "--off")[:2] == (0, f"{saved} is private\n")
    assert run("ttl", saved, "never")[:2] == (0, f"{saved} never expires\n")
    assert facts() == ((False, True),)
    missing = f"tinker://{model}/weights/none"
    status, out, err = run("delete", saved, missing, "--yes")
    assert (status, out) == (4, f"deleted {saved}\n")
    assert err.endswith(f"crucible tinker delete: Tinker did not delete {missing}: unknown checkpoint {missing}\n")
    assert facts() == ()


@pytest.mark.parametrize("words", [("delete",), ("publish",), ("ttl",)])
def test_deleting_asks_for_confirmation(run, saved, model, words):
    more = ["3600"] if words == ("ttl",) else []
    status, out, err = run(*words, saved, *more)

    assert (status, out) == (4, "")
    assert "without confirmation: add --yes" in err
    (listed,) = json.loads(run("checkpoints", model, "--json")[1])
    assert (listed["public"], listed["expires_at"]) == (False, None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("delete", "ck1", "--yes"), "'ck1' is not a checkpoint: write tinker://RUN/weights/NAME"),
        (("publish", "tinker://R/other/ck1", "--yes"), "'tinker://R/other/ck1' is not a checkpoint"),
        (("ttl", "tinker://R/weights/ck1", "soon"), "'soon' is not a time to live: expected seconds"),
        (("download", "tinker://R/sampler_weights/ck1", "-o", "x"), "cannot be downloaded: services hand out tinker://RUN/weights/"),
        (("download", "tinker://R/weights/ck1", "-o", "."), ". exists already: choose another name with -o"),
        (("download", "tinker://R/weights/ck1", "-o", "x"), "did not go on from tinker://R/weights/ck1: unknown checkpoint"),
    ],
)  # fmt: skip
def test_an_impossible_request_is_refused_in_one_sentence(run, words, sentence, tmp_path):
    status, out, err = run(*words)

    assert (status, out) == (4, "")
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_a_download_is_the_checkpoint_bit_for_bit(run, saved, http_client, model, server, base, tmp_path):
    status, out, _ = run("download", saved, "-o", "v2")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "wrote",
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    assert run("download", saved, "-o", "v2.tar")[0] == 0

    engine = Engine.load(base)
    with tarfile.open("v2.tar") as archive:
        archive.extractall("unpacked", filter="data")
    original, _ = load_training(_directory(server, saved), engine.shape, engine.base_sha256)
    for folder in (Path("v2"), Path("unpacked")):
        loaded = load_sampler(folder, engine.shape, engine.base_sha256)
        assert loaded.spec == original.spec
        assert {name: factor.tobytes() for name, factor in loaded.factors.items()} == {
            name: factor.tobytes() for name, factor in original.factors.items()
        }
        with safe_open(folder / "adapter_model.safetensors", framework="numpy") as file:
            assert sum(np.abs(file.get_tensor(name)).sum() for name in file.keys()) > 0  # noqa: SIM118
        assert json.loads((folder / "adapter_config.json").read_text())["r"] == 4
    # Nothing is left of the copy that was made for the download.
    listed = http_client.get("/checkpoints")["checkpoints"]
    assert not [entry for entry in listed if entry["checkpoint_id"] == "external_weights/download"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unpacked", "v2", "v2.tar"]


def _directory(server, path: str) -> Path:
    return Archive(_home(server)).find(CheckpointPath.parse(path)).directory


def _home(server) -> Path:
    command = server.process.args
    return Path(command[command.index("--directory") + 1])


def test_an_upload_is_sampled_from_and_trained_on_as_the_checkpoint_that_was_downloaded(
    run, saved, http_client, session, model, server, base, tmp_path, monkeypatch
):
    assert run("download", saved, "-o", "blue.tar")[0] == 0
    # The project's service is a directory that the tests' server has, too.
    (tmp_path / ".crucible").mkdir()
    (tmp_path / ".crucible" / "tinker").symlink_to(_home(server))
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(base))

    assert run("upload", "blue.tar")[0] == 4
    status, out, err = run("upload", "--service=local", "blue.tar", "--json")
    uploaded = json.loads(out)
    path = uploaded["path"]

    assert (status, err, uploaded["is_new"]) == (0, f"the local Tinker server: {tmp_path}/.crucible/tinker\n", True)
    assert path == f"tinker://upload-{uploaded['sha256'][:16]}/weights/blue"
    assert uploaded["sampler_path"] == path.replace("/weights/", "/sampler_weights/")
    listed = json.loads(run("checkpoints", path.split("/")[2], "--json")[1])
    assert [each["user_metadata"] for each in listed] == [
        {"uploaded_from": "blue.tar", "sha256": uploaded["sha256"]}
    ] * 2
    replies = []
    original = save(http_client, model, 50, "/save_weights_for_sampler", path="original")["path"]
    # As a service with the rules of the hosted one samples: not from a state to train on.
    for number, place in enumerate((original, uploaded["sampler_path"])):
        opened = http_client.post(
            "/create_sampling_session", session_id=session, sampling_session_seq_id=number + 5, model_path=place
        )
        sampled = ask(http_client, 0, opened["sampling_session_id"], params={"seed": 1})
        # Tokens and log-probabilities.
        replies.append(http_client.protobuf(sampled["request_id"]))
    assert replies[0] == replies[1]
    resumed = http_client.post("/load_weights", session_id=session, model_seq_id=9, path=path, optimizer=True)
    assert http_client.result(resumed["request_id"])["path"] == path
    first = save(http_client, f"{session}:train:9", 1, path="again")["path"]
    assert run("download", first, "-o", "again")[0] == 0
    assert hash_file(Path("again/adapter_model.safetensors")) == uploaded["sha256"]


def test_external_weights_are_hidden_from_an_sdk_without_them(server, http_client, model):
    path = save(http_client, model, 1, "/save_weights_external", path="out")["path"]
    old, new = (Http(server, **{"x-stainless-package-version": version}) for version in ("0.25.0", "0.38.0"))

    for page in (f"/training_runs/{model}/checkpoints", "/checkpoints?limit=1000"):
        lines = [
            [checkpoint["tinker_path"] for checkpoint in client.get(page)["checkpoints"]]
            for client in (old, new, http_client)
        ]
        assert [path in paths for paths in lines] == [False, True, True]


def test_the_url_of_a_file_needs_no_key_and_ends(server, http_client, model):
    path = save(http_client, model, 1, "/save_weights_external", path="out")["path"]
    urls = http_client.get(f"/training_runs/{model}/checkpoints/external_weights/out/external_weights_urls")["urls"]
    anybody = Http(server, **{"x-api-key": "tml-wrong"})
    place = urls["adapter_config.json"].removeprefix(server.url)

    assert json.loads(anybody.raw("GET", place)[2])["peft_type"] == "LORA"
    assert anybody.call("GET", place.replace("adapter_config", "checkpoint"))[0] == 404
    assert anybody.call("GET", "/api/v1/downloads/guess/adapter_config.json")[0] == 404
    http_client.call("DELETE", f"/api/v1/training_runs/{model}/checkpoints/external_weights/out")
    assert anybody.call("GET", place)[0] == 404
    assert (
        "is for download; sample from"
        in http_client.refusal(
            "/create_sampling_session", session_id=model.partition(":")[0], sampling_session_seq_id=3, model_path=path
        )[1]
    )
    assert (
        "age_encryption_recipients is not supported"
        in http_client.refusal(
            "/save_weights_external", model_id=model, seq_id=2, path="x", age_encryption_recipients=["age1"]
        )[1]
    )


def test_the_local_service_is_that_of_the_project(monkeypatch, tmp_path, capsys, run):
    monkeypatch.setenv(KEY, "tml-hosted")
    assert main(["tinker", "runs"]) == 4
    assert capsys.readouterr().err.startswith(
        f"crucible tinker runs: {tmp_path}/.crucible/tinker does not exist: no test here"
    )
    assert list(tmp_path.iterdir()) == []

    (tmp_path / ".crucible" / "tinker").mkdir(parents=True)
    status = main(["tinker", "runs"])
    out, err = capsys.readouterr()

    assert (status, out) == (0, "no training runs\n")
    assert err == f"the local Tinker server: {tmp_path}/.crucible/tinker; {KEY} is set, --service hosted uses it\n"


class _Rest:
    def __init__(self, *names: str) -> None:
        self.urls = dict.fromkeys(names, "http://127.0.0.1:9/none")

    def get_external_weights_urls(self, path: str) -> _Rest:
        return self


def test_a_file_that_leads_out_of_the_directory_is_refused(run, tmp_path):
    services = project_services(tmp_path, service="hosted")
    try:
        service = services.own
        service.__dict__["rest"] = _Rest("../out.txt")
        with pytest.raises(SpecError, match=r"'\.\./out\.txt', which leads out of its directory"):
            download_checkpoint(service, "tinker://R/external_weights/x", tmp_path / "v2")
        service.__dict__["rest"] = _Rest("a.txt")
        with pytest.raises(SpecError, match=r"Tinker broke off a download \(ConnectError\): try again"):
            download_checkpoint(service, "tinker://R/external_weights/x", tmp_path / "v2")
        del service.__dict__["rest"]
    finally:
        services.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["", "tinker://R/weights/", "tinker://R/weights/a/b", "tinker:///weights/a", "R/weights/a"]
)
def test_an_invalid_path_is_refused(path):
    with pytest.raises(SpecError, match="is not a checkpoint"):
        path_parts(path)
