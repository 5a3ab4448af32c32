"""The address and the key of a Tinker service, and names of its models that stay the same on every machine."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_crucible.records.errors import SpecError

HOSTED_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"
KEY, URL = "TINKER_API_KEY", "TINKER_BASE_URL"
OPTIONS = ("base_url", "api_key_env", "project")
"""Options that name an adapter's service; without them it is the session's own."""
KEY_STARTS = ("tml-", "eyJ")
"""Prefixes of an API key and of a JSON Web Token that stands for one."""


@dataclass(frozen=True)
class ServiceAddress:
    """The address of a service and the API key for it. The repr omits the key."""

    url: str
    key: str | None = field(repr=False)
    """None if the SDK finds a key itself: by `TINKER_CREDENTIAL_CMD`, or after `tinker auth login`."""
    project: str | None = None


def names_service(options: Mapping[str, object]) -> bool:
    """Return whether an adapter names a service other than the session's own."""
    return any(name in options for name in OPTIONS)


def read_address(
    adapter: str, options: Mapping[str, object], environment: Mapping[str, str], own_url: str | None
) -> ServiceAddress:
    """Return the address that an adapter names. Raises SpecError for an invalid one, and for a missing key."""
    for name in OPTIONS:
        if name in options and not (isinstance(options[name], str) and options[name]):
            raise SpecError(f'adapter {adapter!r} has {name} = {options[name]!r}: write {name} = "..."')
    url = options.get("base_url") or own_url
    if url is None:
        raise SpecError(
            f"adapter {adapter!r} names a key or a project, but the session's own service is on this machine: "
            "name the service with base_url"
        )
    if urlsplit(str(url)).scheme not in ("http", "https"):
        raise SpecError(f"adapter {adapter!r} has base_url {url!r}: write http://... or https://...")
    variable = str(options.get("api_key_env", KEY))
    project = options.get("project")
    return ServiceAddress(
        str(url).rstrip("/"), read_key(environment, variable, adapter), None if project is None else str(project)
    )


def read_key(environment: Mapping[str, str], variable: str, adapter: str) -> str:
    """Return the key in an environment variable. Raises SpecError for a missing key and for a text that cannot be a key."""
    key = environment.get(variable, "")
    if not key:
        raise SpecError(
            f"adapter {adapter!r} needs a key for its Tinker service: set {variable}, or name it in api_key_env"
        )
    if not key.startswith(KEY_STARTS):
        raise SpecError(f"{variable} is not a Tinker key: it must start with 'tml-'")
    return key


def is_loopback(url: str) -> bool:
    """Return whether a service is on this machine.

    >>> is_loopback("http://127.0.0.1:8000"), is_loopback("https://tinker.example")
    (True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exempt_loopback(url: str, environment: MutableMapping[str, str]) -> None:
    """Add a service on this machine to NO_PROXY: a proxy cannot reach this machine's own interface."""
    if not is_loopback(url):
        return
    host = urlsplit(url).hostname or ""
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [known_host for known_host in environment.get(name, "").split(",") if known_host]
        environment[name] = ",".join([*hosts, *(known_host for known_host in (host,) if known_host not in hosts)])


def proxy_variable(url: str) -> str | None:
    """Return the variable that sets the proxy for a URL; None without a proxy."""
    parts = urlsplit(url)
    proxies = getproxies()
    scheme = next((candidate for candidate in (parts.scheme, "all") if candidate in proxies), None)
    if scheme is None or proxy_bypass(parts.netloc):
        return None
    return next(
        (name for name in (f"{scheme.upper()}_PROXY", f"{scheme}_proxy") if name in os.environ), f"{scheme}_proxy"
    )


CHECKPOINT = "tinker://"


def identify_model(address: ServiceAddress, model: str, *, is_own: bool, is_local: bool) -> str:
    """Return the identity of a checkpoint or a base model.

    The local model's full name is a path; its last two parts name the weights in any folder. Models of a service other
    than the session's own have its URL before their name.
    """
    if is_local and not model.startswith(CHECKPOINT):
        model = "/".join(PurePosixPath(Path(model).as_posix()).parts[-2:])
    return model if is_own else f"{address.url} {model}"


def key_digest(key: str | None) -> str:
    """Return 8 characters that differ between keys and reveal none."""
    return hashlib.sha256((key or "").encode()).hexdigest()[:8]


def find_hosted_key(sdk: Any) -> tuple[str | None, set[str]]:
    """Return the hosted service's key, None if the SDK finds one itself, and all secrets that the SDK may send.

    Raises SpecError for a missing key and for a text that cannot be a key.
    """
    key, command = os.environ.get(KEY, ""), os.environ.get("TINKER_CREDENTIAL_CMD")
    # With a command the SDK finds the key itself: the variable need not hold one.
    if key and not key.startswith(KEY_STARTS) and not command:
        raise SpecError(f"{KEY} is not a Tinker key: it must start with 'tml-'")
    # Tokens of `tinker auth login`, which older versions of the SDK do not have.
    auth = getattr(sdk, "auth", None)
    stored = auth.get_tinker_token() if auth is not None and not key else None
    if not (key or command or stored):
        raise SpecError(f"the hosted Tinker service needs a key: set {KEY}, or leave crucible_tinker = local")
    return (key if key.startswith(KEY_STARTS) else None), {secret for secret in (key, stored) if secret}
