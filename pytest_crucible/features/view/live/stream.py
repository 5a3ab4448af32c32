"""`/events` and `/runs/RUN/events`: the states of the list of runs, and of one run, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pytest_crucible.features.view.live.state import ALL
from pytest_crucible.features.view.live.watcher import Watcher
from pytest_crucible.features.view.pages.respond import site_of
from pytest_crucible.records.redaction import redact
from pytest_crucible.store.texts import sanitize_text

_TYPE = "text/event-stream"


async def events(request: Request) -> Response:
    """Return a stream of whole states, so that a page that reconnects repeats nothing."""
    if request.method == "HEAD":
        return Response(media_type=_TYPE)
    watcher: Watcher = request.app.state.watcher
    # PostgreSQL refuses NUL, and one query is for all pages.
    run = sanitize_text(request.path_params.get("run", ALL))
    lines = _lines(watcher, run, site_of(request).hide)
    return StreamingResponse(lines, media_type=_TYPE)


async def _lines(watcher: Watcher, run: str, hide: Callable[[str], str]) -> AsyncIterator[str]:
    async for news in watcher.follow(run):
        # The page's part in it was rendered without keys.
        yield (
            "event: beat\ndata:\n\n"
            if news is None
            else f"id: {news[0]}\ndata: {json.dumps(redact(news[1], hide))}\n\n"
        )
