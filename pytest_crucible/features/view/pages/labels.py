"""The page `/runs/RUN/labels`: replies in a random order, without their arm or scores, and keys that label them.

The only address that takes POST: with the cookie, the page's own token, and from the same origin.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from pytest_crucible.datasets.labels import ReplyKey
from pytest_crucible.features.view.addresses import parse_number
from pytest_crucible.features.view.label_file import LabelConflict
from pytest_crucible.features.view.label_queue import Turn
from pytest_crucible.features.view.labelling import LONGEST_NOTE, Labelling, read_person, token_of
from pytest_crucible.features.view.pages.respond import document, page, site_of
from pytest_crucible.features.view.sample_texts import prompt_text, shown_text
from pytest_crucible.records.errors import CrucibleError, SpecError

LARGEST_BODY = 64_000
"""Bytes: a note of the greatest length, escaped."""


def labels_page(request: Request, run: str) -> Response:
    """Return the frame of the page; its script fetches the replies."""
    labelling = labelling_of(request, run)
    person = read_person(request.query_params.get("by") or labelling.person)
    return page(request, "labels.html.j2", labelling=labelling, person=person, token=token_of(site_of(request).token))


def reply_document(request: Request, run: str) -> Response:
    """Return the reply at the place `at`, from 1, or the first without a label of the person `by`, as JSON."""
    try:
        return document(request, _reply(request, run))
    except CrucibleError as error:
        return document(request, {"error": str(error)}, 422)


def _reply(request: Request, run: str) -> dict[str, Any]:
    labelling = labelling_of(request, run)
    person, queue = read_person(request.query_params.get("by", "")), labelling.queue
    labelled = labelling.labelled_by(person)
    at = request.query_params.get("at", "")
    place = _place(at, len(queue)) if at else queue.next_place(0, labelled)
    left = len(queue) - len(labelled)
    if place is None:
        return {"left": left, "total": len(queue)}
    turn = queue.turn(place)
    label, note = labelling.own_cells(turn.key, person)
    return {"at": place + 1, "left": left, "total": len(queue), "label": label, "note": note, **_texts(turn)}


async def record_label(request: Request) -> Response:
    """Write a label and return the next place without one; an error is one sentence, and nothing is written."""
    try:
        if not _has_token(request):
            sentence = "this page is of an earlier start of the dashboard: open the link that it printed last"
            return document(request, {"error": sentence}, 403)
        body = await _read_body(request)
        return document(request, await run_in_threadpool(_record, request, body))
    except LabelConflict as error:
        return document(request, {"error": str(error), "label": error.label}, 409)
    except (CrucibleError, OSError) as error:
        # An error of the system has the file's path in it.
        reason = getattr(error, "strerror", None) or error
        return document(request, {"error": f"nothing was written: {reason}"}, 422)


def labelling_of(request: Request, run: str) -> Labelling:
    """Return the labels page of a run. Raises SpecError where the dashboard was not started with it."""
    labelling = site_of(request).labelling
    if labelling is None or labelling.run != run:
        raise SpecError(f"no labels are taken of run {run}: start crucible view {run} --labels labels.csv")
    return labelling


def _has_token(request: Request) -> bool:
    """Return whether a request is one of this page. Its cookie and origin were checked, as all are."""
    token = request.headers.get("x-crucible-token", "")
    return secrets.compare_digest(token.encode(), token_of(site_of(request).token).encode())


async def _read_body(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise SpecError(f"a label takes at most {LARGEST_BODY:,} bytes: shorten the note")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    names = ("by", "at", "id", "label", "note", "before")
    if not isinstance(document, dict) or not all(isinstance(document.get(name), str) for name in names):
        raise SpecError(f"a label is a JSON object with the texts {', '.join(names)}: reload the page")
    return document


def _record(request: Request, body: dict[str, str]) -> dict[str, Any]:
    labelling = labelling_of(request, request.path_params["run"])
    person, queue, label, note = read_person(body["by"]), labelling.queue, body["label"], body["note"]
    if label not in ("", *labelling.names):
        raise SpecError(f"{label!r:.80} is not a label: the labels are {', '.join(labelling.names)}")
    if len(note) > LONGEST_NOTE:
        raise SpecError(f"the note has {len(note):,} characters: shorten it to {LONGEST_NOTE:,}")
    place = _place(body["at"], len(queue))
    turn = queue.turn(place)
    if body["id"] != _opaque_id(turn.key):
        raise SpecError("this reply is not at its place any more: reload the page")
    labelling.file.record(turn.ids, person, label, note.replace("\0", "\ufffd"), before=body["before"])
    labelled = labelling.labelled_by(person)
    following = queue.next_place(place + 1, labelled) if label else place
    return {"left": len(queue) - len(labelled), "next": None if following is None else following + 1}


def _place(text: str, most: int) -> int:
    number = parse_number(text, 1, most)
    if number is None:
        raise SpecError(f"there is no reply {text!r:.40}: the replies are 1 to {most}")
    return number - 1


def _texts(turn: Turn) -> dict[str, str | None]:
    """Return what the person sees. Neither the arm, the variant nor the sample's id is in it, which would lead to scores."""
    return {
        "id": _opaque_id(turn.key),
        "prompt": prompt_text(turn.prompt),
        "sent": None if turn.sent is None else prompt_text(turn.sent),
        "expected": None if turn.expected is None else shown_text(turn.expected),
        "reply": shown_text(turn.text),
    }


def _opaque_id(key: ReplyKey) -> str:
    return hashlib.sha256(json.dumps([key.experiment, key.sample, key.variant, key.reply_sha256]).encode()).hexdigest()[
        :16
    ]
