"""The argument `endpoint` of a test function: where its clients find the arm."""

from __future__ import annotations

from pytest_crucible.features.agents.roles import find_role
from pytest_crucible.features.agents.server import EndpointServer, Seat
from pytest_crucible.records.usage import ROLE


class Address:
    """The place where clients of one sample find its arm, or a model in a role, while the test function runs."""

    def __init__(self, server: EndpointServer, seat: Seat) -> None:
        self._server, self._seat = server, seat
        self._token = server.add(seat)

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
        """A key for clients that want one. The address alone decides who answers."""
        return "crucible"

    @property
    def model(self) -> str:
        """The name of the arm. Any other name of a model is answered, too; with it, clients that keep replies keep arms apart."""
        return self._seat.model


class Endpoint(Address):
    """Serves an arm to the clients of one sample, in a function that is async."""

    @property
    def calls(self) -> int:
        """The number of calls that the sample has sent so far, those of roles included."""
        return self._seat.calls.number

    def role(self, name: str) -> Address:
        """Return where the model of a role is found. Raises Refused, which ends the experiment, for an unknown role."""
        calls = self._seat.calls
        bound = calls.bound
        opened = bound.experiment.opened_arms[bound.unit.arm]
        helper = find_role(opened, name)
        if helper.arm.name == opened.arm.name:
            return Address(self._server, self._seat)
        return Address(self._server, Seat(calls, bound.open_sampler(helper, f"{ROLE}{name}"), helper.arm.name, name))


class BlockingEndpoint(Endpoint):
    """Serves an arm to the clients of one sample, in a function that is not async."""
