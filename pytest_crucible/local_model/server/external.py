"""Endpoints that hand checkpoints out: an adapter's weights as files in PEFT's layout, and URLs to download them.

A URL is valid for an hour and needs no key: it is the permission to read these files, like a signed URL of the hosted service.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from pytest_crucible.local_model.checkpoints import EXTERNAL_FILE
from pytest_crucible.local_model.lora import ALPHA
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.archive import EXTERNAL, CheckpointPath, format_time
from pytest_crucible.local_model.server.messages import Json, Request, Response, bad_request, json_response, not_found
from pytest_crucible.local_model.server.saving import checkpoint_info
from pytest_crucible.local_model.server.state import Endpoints, Run, Service
from pytest_crucible.local_model.server.training import request_id_of, submit

DOWNLOADS = "/downloads/"
CONFIG_FILE = "adapter_config.json"
FILES = (EXTERNAL_FILE, CONFIG_FILE)
# The SDK signs again five minutes before the end.
URL_S = 3600.0


def save_weights_external(service: Service, request: Request) -> Response:
    """Save an adapter's weights as files to download."""
    body = request.object()
    run = service.run(request_fields.text(body, "model_id"))
    if body.get("age_encryption_recipients"):
        raise bad_request("age_encryption_recipients is not supported by this server: leave it out, nothing is sent")
    path = CheckpointPath(run.id, EXTERNAL, request_fields.text(body, "path"))
    info = checkpoint_info(service, run, body)

    def save() -> Response:
        with service.archive.write_checkpoint(path, info) as directory:
            run.model.save_sampler(directory / EXTERNAL_FILE)
            (directory / CONFIG_FILE).write_text(json.dumps(_config(run), indent=1) + "\n", encoding="utf-8")
        size = service.archive.find(path).size
        return json_response({"type": "save_weights_external", "path": str(path), "size_bytes": size})

    return submit(service, request_id_of(run, body), save, run)


def external_weights_urls(service: Service, request: Request) -> Response:
    """Return a URL for each file of a checkpoint."""
    checkpoint = service.archive.find(CheckpointPath(request.parameters["run"], EXTERNAL, request.parameters["name"]))
    now = service.clock()
    for expired in [token for token, (_, until) in service.downloads.items() if until <= now]:
        del service.downloads[expired]
    token, until = secrets.token_urlsafe(32), now + URL_S
    service.downloads[token] = checkpoint.directory, until
    start = f"http://{request.headers.get('host', '')}/api/v1{DOWNLOADS}{token}"
    urls: dict[str, Json] = {name: f"{start}/{name}" for name in FILES}
    return json_response({"urls": urls, "expires": format_time(until)})


def download(service: Service, request: Request) -> Response:
    """Return a file. Its URL is the permission."""
    directory, until = service.downloads.get(request.parameters["token"], (Path(), 0.0))
    name = request.parameters["file"]
    if until <= service.clock() or name not in FILES:
        raise not_found("this URL is unknown or has expired: get a new one from external_weights_urls")
    try:
        return Response(body=(directory / name).read_bytes(), kind="application/octet-stream")
    except FileNotFoundError:
        raise not_found(f"{name} was deleted with its checkpoint") from None


def _config(run: Run) -> dict[str, Json]:
    """Return the description of the adapter, with PEFT's names."""
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": run.base_model,
        "base_sha256": run.base.engine.base_sha256,
        "r": run.lora.rank,
        "lora_alpha": ALPHA,
        "target_modules": list(run.lora.matrices(run.base.engine.shape)),
    }


ENDPOINTS: Endpoints = {
    ("POST", "/save_weights_external"): save_weights_external,
    ("GET", "/training_runs/{run}/checkpoints/external_weights/{name}/external_weights_urls"): external_weights_urls,
    ("GET", f"{DOWNLOADS}{{token}}/{{file}}"): download,
}
