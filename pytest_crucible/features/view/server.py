"""Serves a dashboard until Ctrl-C."""

from __future__ import annotations

import socket

import uvicorn

from pytest_crucible.features.view.application import make_application
from pytest_crucible.features.view.site import Site


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and port; port 0 is any free one. Raises OSError."""
    return socket.create_server((host, port))


class DashboardServer(uvicorn.Server):
    """Ends the event streams of open pages when it stops: it waits for all responses."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.watcher.close()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def make_server(site: Site) -> uvicorn.Server:
    """Return the server of a site; `run(sockets=[...])` serves on sockets."""
    # Without an access log: addresses are in no log.
    config = uvicorn.Config(make_application(site), log_level="warning", access_log=False, lifespan="off")
    return DashboardServer(config)
