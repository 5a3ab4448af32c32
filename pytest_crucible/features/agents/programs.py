"""The programs of a unit: each gets the sample's endpoint by its environment, and ends with the unit."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from pytest_crucible.backends.deadlines import awaits_first_answer, credited_seconds
from pytest_crucible.features.agents.commands import (
    Command,
    ProgramResult,
    RunningCommand,
    check_words,
    launch,
    result_of,
)
from pytest_crucible.features.agents.environments import Host, Served, client_variables
from pytest_crucible.features.agents.tables import agent_programs
from pytest_crucible.features.agents.workspaces import owner_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import BackendError, Refused
from pytest_crucible.sandbox.program_profile import missing_parts
from pytest_crucible.session.experiment import BoundUnit


class ProgramTimeout(AssertionError):
    """A program that had not ended in its time: a failure of the arm."""


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """The options of one program."""

    cwd: str | os.PathLike[str] | None = None
    timeout_s: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    sandbox: bool = False


def program_options(
    cwd: str | os.PathLike[str] | None, timeout_s: float | None, env: Mapping[str, str] | None, sandbox: bool
) -> ProgramOptions:
    """Return how a program is run. Raises ValueError for a time that is not above 0."""
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s is {timeout_s!r}: write the seconds that the program may run, or leave it out")
    return ProgramOptions(cwd=cwd, timeout_s=timeout_s, env=env or {}, sandbox=sandbox)


@dataclass(eq=False)
class UnitPrograms:
    """The programs of one unit. Its coroutines run on the sampling loop."""

    bound: BoundUnit
    host: Host
    _running: set[RunningCommand] = field(default_factory=set)
    _scratch: Path | None = None
    _is_over: bool = False

    def variables(self, served: Served) -> dict[str, str]:
        """Return the variables by which clients find the sample."""
        return client_variables(served, self._folder("dspy"))

    async def run(
        self, served: Served, command: Sequence[str | os.PathLike[str]], options: ProgramOptions
    ) -> ProgramResult:
        """Run a program to its end. Raises ProgramTimeout, OSError if it cannot be started, and Refused without a sandbox.

        A program whose server has answered nothing loses the sample: BackendError.
        """
        planned = self._plan(served, check_words(command), options)
        running = await launch(planned)
        self._running.add(running)
        try:
            await running.wait(options.timeout_s, credited_seconds)
        finally:
            self._running.discard(running)
            self._record(running, planned)
        if running.ended == "timeout":
            sentence = f"{planned.words[0]} had not ended after {options.timeout_s:g} s (timeout_s)"
            if awaits_first_answer():
                raise BackendError(f"{sentence}, and its server has answered nothing")
            raise ProgramTimeout(sentence)
        return result_of(running, planned)

    def _plan(self, served: Served, words: Sequence[str], options: ProgramOptions) -> Command:
        if self._is_over:
            raise RuntimeError(f"the sample has ended: {words[0]} is not run")
        cwd = Path(options.cwd or Path.cwd()).absolute()
        owner = owner_of(cwd)
        if owner is not None and owner is not self.bound.outcome:
            raise Refused(
                f"cwd={str(cwd)!r} is the workspace of another sample: use the argument `workspace` of the function"
            )
        variables = {**self.host.variables(), **self.variables(served), **options.env}
        if not options.sandbox:
            return Command(words=words, cwd=cwd, variables=variables)
        if options.cwd is None:
            raise Refused(
                "endpoint.run(..., sandbox=True) needs cwd=, the directory to which the program may write: use `workspace`"
            )
        if missing := missing_parts():
            raise Refused(f"endpoint.run(..., sandbox=True) cannot confine {words[0]}: {missing}")
        home = self._folder("home")
        return Command(
            words=words,
            cwd=cwd,
            variables={**variables, "HOME": str(home), "TMPDIR": str(home)},
            confined=True,
            writable=(cwd, home, self._folder("dspy")),
            port=urlsplit(served.base_url).port,
        )

    def _folder(self, name: str) -> Path:
        self._scratch = self._scratch or Path(tempfile.mkdtemp(prefix="crucible-agent-"))
        folder = self._scratch / name
        folder.mkdir(exist_ok=True)
        return folder

    def _record(self, running: RunningCommand, command: Command) -> None:
        rows = self.bound.outcome.feature_rows.setdefault(agent_programs.name, [])
        rows.append(
            {
                "number": len(rows) + 1,
                "command": list(command.words),
                "exit_status": None if running.not_started else running.exit_status,
                "ended": running.not_started or running.ended,
                "output": running.output.text(),
                "errors": running.errors.text(),
                "begun": running.begun,
                "seconds": running.seconds,
            }
        )

    async def close(self) -> None:
        """End the programs that still run, and remove what they have written outside the workspace."""
        self._is_over = True
        for running in self._running:
            running.ended = "unit"
        await asyncio.gather(*(running.stop() for running in self._running))
        # Their rows are added when those that wait for them continue.
        await asyncio.sleep(0)
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
