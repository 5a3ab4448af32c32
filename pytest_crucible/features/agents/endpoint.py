"""The argument `endpoint` of a test function: where its clients find the arm."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pytest_crucible.features.agents.commands import ProgramResult
from pytest_crucible.features.agents.programs import UnitPrograms, program_options
from pytest_crucible.features.agents.roles import find_role
from pytest_crucible.features.agents.server import EndpointServer, Seat
from pytest_crucible.features.agents.tools import Function, Journal
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


class UnitAddress(Address):
    """The endpoint of one sample: its address, and what the test function can do there."""

    def __init__(self, server: EndpointServer, seat: Seat, programs: UnitPrograms, journal: Journal) -> None:
        super().__init__(server, seat)
        self._programs, self._journal = programs, journal

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

    def environment(self) -> AbstractContextManager[None]:
        """Return a context manager that points clients in this process at the endpoint by its variables, and restores them.

        Raises Refused, which ends the experiment, where several samples run at a time and share the variables.
        """
        return self._programs.host.variables_set(self._programs.variables(self))

    def tool(self, function: Function | str, *, replay: bool = False) -> Any:
        """Return a function whose calls are recorded: its name, arguments, result and seconds. Given a name, a decorator.

        With `replay`, the first unit that calls it with some arguments records the result; equal calls for the same sample, of
        other arms and repeats, get a copy, so that all meet the same world. The n-th equal call of a unit gets the n-th result;
        other arguments run the function. For tools that only read: what the function changes, it changes once. Results are
        replayed within one process and run: another run, and the rest of a resumed one, record them again.
        """
        if isinstance(function, str):
            name = function
            return lambda decorated: self._journal.tool(decorated, name, replay=replay)
        return self._journal.tool(function, getattr(function, "__name__", "tool"), replay=replay)

    def tool_result(self, text: str) -> str:
        """Record a text that a tool returns to the agent, and return it: `endpoint.tool_result(perturb(text))`."""
        self._journal.add_text(text)
        return text


class Endpoint(UnitAddress):
    """Serves an arm to the clients of one sample, in a function that is async."""

    async def run(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: bool = False,
    ) -> ProgramResult:
        """Run a program whose clients find the endpoint by its environment, and return what it printed and its exit status.

        It gets the variables of this process without keys, and `env`. All that it has started ends with it. With `sandbox`
        it can write to `cwd` alone and connect to the endpoint alone.
        Raises ProgramTimeout, a failure of the arm, after `timeout_s`, and OSError for a program that cannot be started.
        """
        return await self._programs.run(self, command, program_options(cwd, timeout_s, env, sandbox))


class BlockingEndpoint(UnitAddress):
    """Serves an arm to the clients of one sample, in a function that is not async."""

    def run(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: bool = False,
    ) -> ProgramResult:
        """Run a program as `Endpoint.run` does, and return when it has ended."""
        running = self._programs.run(self, command, program_options(cwd, timeout_s, env, sandbox))
        return self._programs.bound.loop.submit(running).result()
