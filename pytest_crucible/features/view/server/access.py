"""Refuses requests that lack the cookie for which the server exchanges its random token, and those of other sites."""

from __future__ import annotations

import secrets
from html import escape

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_crucible.features.view.server.hosts import Hosts

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy: nothing inline, nothing from elsewhere."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LONGEST_ADDRESS = 8_192
"""Bytes: more than a page's state takes with a search of a thousand characters."""
WRITABLE = "/labels"
"""The end of the only addresses that take POST. Their page has a token of its own."""
LINK = 'open the link that "crucible view" printed'


class Access:
    """Answers requests that have the cookie, and exchanges the token for it."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Hosts) -> None:
        self.app, self._token, self._hosts = app, token, hosts
        # Another secret than the token: who reads the cookie of a browser has not the link, which any browser may open.
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            answer = self._answer(Request(scope)) or self.app
            await answer(scope, receive, _add_headers(send))

    def _answer(self, request: Request) -> Response | None:
        """Return the response to a request that the application does not get; None for one that it gets."""
        if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > LONGEST_ADDRESS:
            return _refuse(414, f"an address has at most {LONGEST_ADDRESS:,} bytes: shorten the search")
        return self._refuse_site(request) or self._refuse_stranger(request) or _refuse_method(request)

    def _refuse_site(self, request: Request) -> Response | None:
        """Return a refusal of a request that another site makes, perhaps by a name of its own for this machine."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._hosts.allows(host):
            return _refuse(403, f"this dashboard has another host: {LINK}")
        if origin not in (None, f"{request.url.scheme}://{host}") or _comes_from_elsewhere(request.headers):
            return _refuse(403, f"this request was made by another site: {LINK}")
        return None

    def _refuse_stranger(self, request: Request) -> Response | None:
        """Return the cookie for a token, or a refusal; None for a request with the cookie."""
        # All ports of a host share cookies. Behind a tunnel, the port is the one that the browser uses.
        cookie = f"crucible-{request.url.port or 80}"
        if _is_equal(request.query_params.get("token", ""), self._token):
            response = _lead_on(request)
            response.set_cookie(cookie, self._session, httponly=True, samesite="strict")
            return response
        if _is_equal(request.cookies.get(cookie, ""), self._session):
            return None
        return _refuse(403, f"{LINK}: it has the token without which nothing is shown")


def _comes_from_elsewhere(headers: Headers) -> bool:
    """Return whether a page of another site, or of another port, makes a request that is not a user's click on a link."""
    is_click = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_click


def _lead_on(request: Request) -> Response:
    """Return a response that leads to the address without the token."""
    url = request.url.remove_query_params("token")
    # Two slashes at the beginning would be another host's.
    address = f"/{url.path.lstrip('/')}" + (f"?{url.query}" if url.query else "")
    if request.headers.get("sec-fetch-site", "none") == "none":
        return RedirectResponse(address, 303)
    # A browser sends a strict cookie with no redirect of a link in another page; it does with what this page leads to.
    return HTMLResponse(_LEAD.format(address=escape(address)))


_LEAD = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>crucible</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={address}"><p><a href="{address}">Open the dashboard</a></p></html>
"""


def _refuse_method(request: Request) -> Response | None:
    is_post = request.method == "POST" and request.url.path.endswith(WRITABLE) and "origin" in request.headers
    if request.method in ("GET", "HEAD") or is_post:
        return None
    response = _refuse(405, "a dashboard only shows: it answers GET and HEAD")
    response.headers["Allow"] = "GET, HEAD"
    return response


def _refuse(status: int, sentence: str) -> Response:
    # Closed, so that a body that follows is not read.
    return PlainTextResponse(sentence, status, {"Connection": "close"})


def _is_equal(text: str, secret: str) -> bool:
    return secrets.compare_digest(text.encode(errors="replace"), secret.encode())


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers
