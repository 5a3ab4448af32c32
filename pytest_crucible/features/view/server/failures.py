"""Responses to requests that fail: a page with one sentence, or the sentence alone for a script."""

from __future__ import annotations

import contextlib
import sys
from http import HTTPStatus
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_crucible.features.view.site import Site
from pytest_crucible.records.errors import CrucibleError, SpecError, StoreError
from pytest_crucible.report.printable import printable
from pytest_crucible.store.reading import READINGS, ChangedStoreError


class Failures:
    """Answers with a sentence where the application fails, and reads again what changed while it was read."""

    def __init__(self, app: ASGIApp, *, site: Site) -> None:
        self.app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_begun = False

        async def note_begin(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        for reading in range(1, READINGS + 1):
            try:
                await self.app(scope, receive, note_begin)
            except ChangedStoreError as error:
                failure: Exception = error
                if not is_begun and reading < READINGS:
                    continue
            except Exception as error:
                failure = error
            else:
                return
            break
        if is_begun:
            # A stream ends, and its page connects again.
            return
        answer = await run_in_threadpool(_respond_to_error, Request(scope), self._site, failure)
        await answer(scope, receive, send)


def _respond_to_error(request: Request, site: Site, error: Exception) -> Response:
    """Return the response to a request in which an error was raised, perhaps because its run was removed meanwhile."""
    with contextlib.suppress(KeyError):
        try:
            site.find_run(request.path_params["run"])
        except CrucibleError as missing:
            error = missing
    return respond(request, site, error)


def respond(request: Request, site: Site, error: Exception) -> Response:
    """Return the response to a request that failed."""
    status, sentence = _describe(site, error)
    sentence = printable(site.hide(sentence))
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(sentence, status)
    title = HTTPStatus(status).phrase.capitalize()
    return HTMLResponse(site.render("sentence.html.j2", title=title, sentence=sentence), status)


def show_failure(request: Request, error: Exception) -> Response:
    """Return the response to a request for which there is no page."""
    return respond(request, request.app.state.site, error)


def _describe(site: Site, error: Exception) -> tuple[int, str]:
    """Return a status, and a sentence without a path of this machine."""
    if isinstance(error, HTTPException):
        return error.status_code, _WORDS.get(error.detail, error.detail)
    sentence = site.sentence(error)
    if isinstance(error, StoreError):
        return 503, sentence
    if isinstance(error, SpecError):
        return 404, sentence
    if isinstance(error, CrucibleError):
        return 500, sentence
    _report(error)
    return 500, 'this page cannot be shown, because of an error in it: the terminal of "crucible view" says where'


_WORDS = {
    "Not Found": "no page has this address: the list of runs leads to all pages",
    "Method Not Allowed": "this address answers GET and HEAD",
}
"""Sentences for those of Starlette."""


def _report(error: Exception) -> None:
    """Write where a page failed: neither its address nor a text of the store."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}" if trace else "an unknown place"
    print(f"crucible view: a page failed with {type(error).__name__} in {where}", file=sys.stderr, flush=True)
