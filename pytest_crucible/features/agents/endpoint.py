"""The argument `endpoint` of a test function: where its clients find the arm."""

from __future__ import annotations

from pytest_crucible.features.agents.server import EndpointServer, Seat
from pytest_crucible.sample.loop import BackgroundLoop


class Address:
    """Where clients find the arm of a sample, or a model in a role."""

    def __init__(self, server: EndpointServer, seat: Seat) -> None:
        self._server, self._seat = server, seat
        server.seats[self._token] = seat

    @property
    def _token(self) -> str:
        return self._seat.calls.token + (f".{self._seat.role}" if self._seat.role else "")

    @property
    def base_url(self) -> str:
        """The base URL for clients in OpenAI's form, `http://127.0.0.1:PORT/TOKEN/v1`."""
        return f"{self.anthropic_base_url}/v1"

    @property
    def anthropic_base_url(self) -> str:
        """The base URL for clients in Anthropic's form, which add `/v1/messages`."""
        return f"{self._server.url}/{self._token}"

    @property
    def api_key(self) -> str:
        """A key that clients may want. The address alone decides."""
        return "crucible"

    @property
    def model(self) -> str:
        """The name of the arm's model. Any other name is answered, too; with it, clients that keep replies keep arms apart."""
        return self._seat.model

    @property
    def calls(self) -> int:
        """How many calls the sample has sent so far, over all roles."""
        return self._seat.calls.number


class Endpoint(Address):
    """Serves an arm to the clients of one sample, while the test function runs."""

    async def close(self) -> None:
        """Answer no further request to any address of the sample."""
        token = self._seat.calls.token
        for address in [address for address in self._server.seats if address.partition(".")[0] == token]:
            del self._server.seats[address]


class BlockingEndpoint(Address):
    """The endpoint of a function that is not async."""

    def __init__(self, endpoint: Endpoint, loop: BackgroundLoop) -> None:
        self._server, self._seat = endpoint._server, endpoint._seat
        self._endpoint, self._loop = endpoint, loop
