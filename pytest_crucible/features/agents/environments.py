"""The environment of an agent: variables that point its clients at a sample's endpoint, and none of the host's keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Protocol

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import Refused
from pytest_crucible.records.secret_settings import is_secret_variable

_ALWAYS: Mapping[str, str] = {
    # Otherwise traces go to OpenAI, with the endpoint's address.
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    # Otherwise litellm loads prices from the network, and mini-swe-agent ends at a model without one.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_COST_TRACKING": "ignore_errors",
    # Otherwise its program asks for a model and a key on a machine where it was never set up, such as one of CI.
    "MSWEA_CONFIGURED": "true",
}
# Programs do not start without them; a short key may stand in a path by chance.
_NEEDED = frozenset({"PATH", "HOME", "USER", "SHELL", "LANG", "PWD", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH"})
_LOCAL = "127.0.0.1,localhost"


class Served(Protocol):
    """An address at which clients find a model."""

    @property
    def base_url(self) -> str: ...
    @property
    def anthropic_base_url(self) -> str: ...
    @property
    def api_key(self) -> str: ...


def client_variables(served: Served, cache: Path) -> dict[str, str]:
    """Return the variables by which clients find a model; `cache` is an empty directory for DSPy's replies."""
    return {
        "OPENAI_BASE_URL": served.base_url,
        "OPENAI_API_BASE": served.base_url,
        "OPENAI_API_KEY": served.api_key,
        "ANTHROPIC_BASE_URL": served.anthropic_base_url,
        "ANTHROPIC_API_KEY": served.api_key,
        # Its key holds no address: another arm's reply would be returned.
        "DSPY_CACHEDIR": str(cache),
        # A proxy of the host does not know this machine's endpoint.
        **{name: ",".join(filter(None, (os.environ.get(name), _LOCAL))) for name in ("NO_PROXY", "no_proxy")},
        **_ALWAYS,
    }


@dataclass(eq=False)
class Host:
    """This process, as far as agents may see it."""

    hide_keys: Callable[[str], str]
    """Redacts the keys of the session and the project in a text."""
    concurrency: int
    """How many samples run at a time."""
    removed: set[str] = field(default_factory=set)
    """The variables that programs did not get."""
    _noted: set[str] = field(default_factory=set)

    def variables(self) -> dict[str, str]:
        """Return this process's variables without keys, and with the programs of this Python first."""
        keys = {name for name, value in os.environ.items() if self._is_key(name, value)}
        self.removed |= keys
        rest = {name: value for name, value in os.environ.items() if name not in keys}
        path = os.pathsep.join(filter(None, (os.path.dirname(sys.executable), rest.get("PATH", os.defpath))))
        return {**rest, "PATH": path}

    def pop_note(self) -> str:
        """Return the line on keys that were removed, once; empty without any."""
        names, self._noted = sorted(self.removed - self._noted), self._noted | self.removed
        return f"programs of agents did not get these variables of the host: {', '.join(names)}" if names else ""

    def _is_key(self, name: str, value: str) -> bool:
        if name in _NEEDED:
            return False
        # Keys under names of the project's own, too, and what looks like a key.
        return is_secret_variable(name) or self.hide_keys(value) != value

    @contextmanager
    def variables_set(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Set variables of this process within the block. Raises Refused where several samples share it."""
        if self.concurrency > 1:
            raise Refused(
                f"endpoint.environment() sets variables of the whole process, in which {self.concurrency} samples run at a "
                "time, so that one would call the arm of another: use endpoint.run, or --crucible-concurrency=1"
            )
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
