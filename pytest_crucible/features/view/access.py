"""Refuses requests that lack the cookie for which the server exchanges its random token."""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy: nothing inline, nothing from elsewhere."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Access:
    """Answers requests that have the cookie, and exchanges the token for it."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        # Cookies are shared by all ports of a host.
        self.cookie = f"crucible-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        if self._is_token(request.query_params.get("token", "")):
            response = RedirectResponse(_without_token(request), status_code=303)
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            await response(scope, receive, _add_headers(send))
        elif self._is_token(request.cookies.get(self.cookie, "")):
            await self.app(scope, receive, _add_headers(send))
        else:
            refusal = "open the link that `crucible view` printed: it has the token without which nothing is shown"
            await PlainTextResponse(refusal, status_code=403)(scope, receive, _add_headers(send))

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())


def _without_token(request: Request) -> str:
    url = request.url.remove_query_params("token")
    return url.path + (f"?{url.query}" if url.query else "")


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers
