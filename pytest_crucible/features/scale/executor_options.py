"""The option `--crucible-executor`: where workers run, and their size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl

from pytest_crucible.features.scale.shard import option_conflicts
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

LOCAL, AUTO, SCHEME = "ray", "auto", "ray://"
_KEYS = ("per_node", "concurrency")
_PORT = re.compile(r"[0-9]{1,5}")
_SIZE = re.compile(r"[1-9][0-9]{0,3}")
"""From 1 to 9,999: Ray starts a process for each worker, and does not refuse a million of them."""
MODE = "RAY_AUTH_MODE"
"""The environment variable that is `token` where a cluster of Ray requires its token."""


@dataclass(frozen=True)
class ExecutorOptions:
    """The place of the workers, and their size."""

    address: str
    """`ray` for a cluster of our own, `auto`, or `ray://HOST:PORT`."""
    per_node: int = 1
    concurrency: int | None = None
    """Samples in flight at a time on each worker; None for that of the session."""

    @property
    def is_local(self) -> bool:
        """Return whether the session starts the cluster."""
        return self.address == LOCAL


def parse_executor(text: str) -> ExecutorOptions:
    """Return the option's value. Raises SpecError.

    >>> parse_executor("ray?per_node=4&concurrency=64")
    ExecutorOptions(address='ray', per_node=4, concurrency=64)
    """
    address, _, query = text.partition("?")
    host, _, port = address.removeprefix(SCHEME).rpartition(":")
    if not (address in (LOCAL, AUTO) or (address.startswith(SCHEME) and host and _is_port(port))):
        raise SpecError(f"--crucible-executor={text}: expected ray, auto or ray://HOST:PORT, such as ray://gpu-1:10001")
    sizes: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _KEYS or not _SIZE.fullmatch(value):
            raise SpecError(
                f"--crucible-executor={text}: {name}={value} is not valid; expected whole numbers from 1 to 9999, "
                "as in ?per_node=1&concurrency=64"
            )
        sizes[name] = int(value)
    return ExecutorOptions(address, **sizes)


def _is_port(text: str) -> bool:
    # The form before the number: `int` refuses thousands of digits, and `isdigit` takes ² for one.
    return _PORT.fullmatch(text) is not None and 0 < int(text) < 2**16


def check_options(values: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield what is wrong with the options of runs on many machines, and the sentence for it."""
    yield from option_conflicts(values)
    if text := values["executor"]:
        is_missing = any(find_spec(name) is None for name in ("ray", "pyarrow"))
        yield is_missing, '--crucible-executor needs Ray: install it with pip install "pytest-crucible[ray]"'
        try:
            parse_executor(text)
        except SpecError as error:
            yield True, str(error)
        sentence = (
            "--crucible-executor sends samples from a cluster, and --crucible-sample one from here: leave one out"
        )
        yield values["sample"] is not None, sentence
