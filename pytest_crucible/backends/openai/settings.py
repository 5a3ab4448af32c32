"""What an adapter says of its server: read, checked, and with the environment's values in their places."""

from __future__ import annotations

import difflib
import hashlib
import ipaddress
import json
import os
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pytest_crucible.backends.http.address import Address, address_of
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter
from pytest_crucible.redaction import is_secret

Mode = Literal["chat", "completions"]
OPTIONS = (
    "base_url",
    "model",
    "api_key_env",
    "headers",
    "mode",
    "system",
    "stream",
    "extra_body",
    "verify",
    "ca_file",
)
MODES = ("chat", "completions")
DEFAULT_KEY = "OPENAI_API_KEY"
_TYPES: dict[str, type] = {"stream": bool, "verify": bool, "extra_body": dict, "headers": dict}
"""Of what is no text."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_EXTRA = {
    "model": "write model = ... beside it",
    "stream": "write stream = true beside it",
    "messages": "what is asked is the sample's input",
    "prompt": "what is asked is the sample's input",
}
_OURS = ("host", "content-length", "transfer-encoding", "connection", "content-type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One adapter's server, and how it is asked."""

    name: str
    address: Address
    told_url: str
    """The base URL as it may be kept: what secret environment variables put into it stays their name."""
    model: str
    mode: Mode | None
    """None: chosen from the input."""
    system: str | None
    stream: bool
    extra_body: Mapping[str, Any]
    verify: bool
    ca_file: Path | None
    headers: Mapping[str, str] = field(repr=False)
    key_from: str
    """Where the key was found, or why none is sent: for whom it is refused."""
    secrets: tuple[str, ...] = field(repr=False)
    """What must not be told."""

    @property
    def server(self) -> str:
        """The base URL and a digest of all that opens it: what is equal here shares one limit."""
        if not self.secrets:
            return self.address.url
        return f"{self.address.url} key {hashlib.sha256(json.dumps(self.secrets).encode()).hexdigest()[:12]}"

    @property
    def identity(self) -> str:
        """URL, model, and a digest of what else changes answers."""
        said = {name: getattr(self, name) for name in ("mode", "system", "extra_body") if getattr(self, name)}
        named = f"{self.told_url}#{self.model}"
        if not said:
            return named
        return f"{named} {hashlib.sha256(json.dumps(said, sort_keys=True, default=repr).encode()).hexdigest()[:16]}"


def read_settings(adapter: Adapter, root: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """From an adapter's options. `ca_file` is relative to `root`. Raises SpecError with one sentence for what cannot be meant."""
    options = _checked(adapter)
    address = _address(adapter, environment)
    key, key_from = _key(adapter, address, environment)
    given = _given_headers(adapter, environment)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    ca_file = options.get("ca_file")
    return Settings(
        name=adapter.name,
        address=address,
        told_url=_told_url(options["base_url"], environment) or address.url,
        model=options["model"],
        mode=options.get("mode"),
        system=options.get("system"),
        stream=options.get("stream", False),
        extra_body=options.get("extra_body", {}),
        verify=options.get("verify", True),
        ca_file=None if ca_file is None else root / Path(ca_file).expanduser(),
        headers={"content-type": "application/json", "accept-encoding": "identity", **headers, **given},
        key_from="the header 'authorization'" if "authorization" in given else key_from,
        secrets=tuple(sorted({*([key] if key else []), *given.values()})),
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at what was meant, with a colon and a blank before it; empty where nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else ""


def _checked(adapter: Adapter) -> Mapping[str, Any]:
    """The options, each of its type."""
    who, options = f"adapter {adapter.name!r}", adapter.options
    for name, value in options.items():
        if name not in OPTIONS:
            hint = nearest(name, OPTIONS) or f": it takes {', '.join(OPTIONS)}, and parameters"
            raise SpecError(f"{who} has {name!r}, which backend 'openai' does not know{hint}")
        wanted = _TYPES.get(name, str)
        if not isinstance(value, wanted) or value == "":
            kind = {bool: "true or false", dict: "a table"}.get(wanted, "a text that is not empty")
            raise SpecError(f"{who} has {name} = {value!r}, wanted {kind}")
    for name in ("base_url", "model"):
        if name not in options:
            raise SpecError(f"{who} has backend 'openai' but no {name!r}: add {name} = \"...\"")
    for name, instead in _NOT_EXTRA.items():
        if name in options.get("extra_body", {}):
            raise SpecError(f"{who} has {name!r} in extra_body, which is for what only this server knows: {instead}")
    if options.get("mode", "chat") not in MODES:
        raise SpecError(f"{who} has mode = {options['mode']!r}, wanted {' or '.join(map(repr, MODES))}")
    if options.get("mode") == "completions" and "system" in options:
        raise SpecError(
            f"{who} has a system prompt, which only mode = 'chat' has: plain completions are given one text"
        )
    return options


def _address(adapter: Adapter, environment: Mapping[str, str]) -> Address:
    try:
        address = address_of(_filled(adapter.options["base_url"], environment))
        if address.path.endswith("/completions"):
            raise ValueError(f"leave out what follows /v1 in {address.origin}{address.path}")
        for name, value in parse_qsl(urlsplit(adapter.options["base_url"]).query):
            if is_secret(name) and not value.startswith("$"):
                raise ValueError(f"it has a key in it: write {name}=$NAME, of an environment variable")
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has a base_url that cannot be asked: {error}") from None
    return address


def _told_url(text: str, environment: Mapping[str, str]) -> str:
    """Empty where there would be no URL without the secrets."""
    told = {name: f"${name}" if is_secret(name) else value for name, value in environment.items()}
    try:
        return address_of(_filled(text, told)).url
    except ValueError:
        return ""


def _filled(text: str, environment: Mapping[str, str]) -> str:
    """With environment variables in place of their names. Raises ValueError for one that is not set."""
    try:
        return string.Template(text).substitute(environment).strip()
    except KeyError as error:
        raise ValueError(f"environment variable {error} is not set") from None
    except ValueError:
        raise ValueError("a $ is written $$") from None


def _key(adapter: Adapter, address: Address, environment: Mapping[str, str]) -> tuple[str, str]:
    """The key and where it came from. The usual one is not sent where everybody on the way could read it."""
    named = adapter.options.get("api_key_env")
    key = environment.get(named or DEFAULT_KEY, "").strip()
    if named and not key:
        raise SpecError(
            f"adapter {adapter.name!r} has api_key_env = {named!r}, but that environment variable is not set"
        )
    if not key:
        return "", f"no key was sent, because {DEFAULT_KEY} is not set"
    if not named and address.scheme == "http" and not _is_here(address.host):
        return "", f"no key was sent, because {DEFAULT_KEY} goes over http:// only where api_key_env names it"
    if not key.isascii() or not key.isprintable():
        raise SpecError(
            f"environment variable {named or DEFAULT_KEY} holds no key: it has characters that no header can"
        )
    return key, f"the key is that of {named or DEFAULT_KEY}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _given_headers(adapter: Adapter, environment: Mapping[str, str]) -> dict[str, str]:
    """Names in small letters. A value may name environment variables: "Bearer $MY_KEY"."""
    headers, who = {}, f"adapter {adapter.name!r}"
    for name, value in adapter.options.get("headers", {}).items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OURS:
            raise SpecError(f"{who} has a header {name!r}, which cannot be set")
        if not isinstance(value, str):
            raise SpecError(f'{who} has a header {name!r} that is no text: write {name} = "..."')
        try:
            filled = _filled(value, environment)
        except ValueError as error:
            raise SpecError(f"{who} has a header {name!r} that cannot be filled in: {error}") from None
        if not filled.isascii() or not filled.isprintable():
            raise SpecError(f"{who} has a header {name!r} with characters that no header can have")
        headers[name.lower()] = filled
    return headers
