"""Where a Tinker service is, and how an adapter says so: `base_url`, `api_key_env` and `project`."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_crucible.errors import SpecError

HOSTED_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"
KEY, URL = "TINKER_API_KEY", "TINKER_BASE_URL"
OPTIONS = ("base_url", "api_key_env", "project")
"""What an adapter may say about its service; one that says nothing is on the session's own."""
KEY_STARTS = ("tml-", "eyJ")
"""Of an API key, and of a token that stands for one."""


@dataclass(frozen=True)
class Place:
    """One service as one user of it sees it. Its key is not shown."""

    url: str
    key: str | None = field(repr=False)
    """None where the SDK finds one by itself: by `TINKER_CREDENTIAL_CMD`, or of `tinker auth login`."""
    project: str | None = None


def place_of(adapter: str, options: Mapping[str, object], environment: Mapping[str, str], own_url: str | None) -> Place:
    """The place that an adapter names. Raises SpecError for one that cannot be meant, or without a key."""
    for name in OPTIONS:
        if name in options and not (isinstance(options[name], str) and options[name]):
            raise SpecError(f'adapter {adapter!r} has {name} = {options[name]!r}: write {name} = "..."')
    url = options.get("base_url") or own_url
    if url is None:
        raise SpecError(
            f"adapter {adapter!r} names a key or a project, but the session's own service is on this machine: "
            "say which service is meant with base_url"
        )
    if urlsplit(str(url)).scheme not in ("http", "https"):
        raise SpecError(f"adapter {adapter!r} has base_url {url!r}: write http://... or https://...")
    variable = str(options.get("api_key_env", KEY))
    project = options.get("project")
    return Place(
        str(url).rstrip("/"), key_in(environment, variable, adapter), None if project is None else str(project)
    )


def key_in(environment: Mapping[str, str], variable: str, adapter: str) -> str:
    """The key that an environment variable holds; SpecError when it holds none, or none that can be right."""
    key = environment.get(variable, "")
    if not key:
        raise SpecError(
            f"adapter {adapter!r} needs a key for its Tinker service: set {variable}, or name it in api_key_env"
        )
    if not key.startswith(KEY_STARTS):
        raise SpecError(f"{variable} is no key of Tinker: it must start with 'tml-'")
    return key


def is_loopback(url: str) -> bool:
    """Whether a service is on this machine.

    >>> is_loopback("http://127.0.0.1:8000"), is_loopback("https://tinker.example")
    (True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exempt_from_proxies(url: str, environment: MutableMapping[str, str]) -> None:
    """No proxy can reach this machine's own interface, whatever HTTP_PROXY says."""
    if not is_loopback(url):
        return
    host = urlsplit(url).hostname or ""
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [one for one in environment.get(name, "").split(",") if one]
        environment[name] = ",".join([*hosts, *(one for one in (host,) if one not in hosts)])


def proxy_for(url: str) -> str | None:
    """The variable whose proxy stands between, None where there is none."""
    parts = urlsplit(url)
    proxies = getproxies()
    scheme = next((one for one in (parts.scheme, "all") if one in proxies), None)
    if scheme is None or proxy_bypass(parts.netloc):
        return None
    return next(
        (name for name in (f"{scheme.upper()}_PROXY", f"{scheme}_proxy") if name in os.environ), f"{scheme}_proxy"
    )
