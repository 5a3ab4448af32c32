"""Settings and sampling parameters of an OpenAI-compatible adapter: read, checked, with environment variables filled in."""

from __future__ import annotations

import hashlib
import json
import os
import re
import string
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pytest_crucible.backends.http import TRANSPORTS
from pytest_crucible.backends.http.client import Address, is_loopback, parse_address
from pytest_crucible.backends.protocol import is_number, read_reply_limit, read_stops
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.redaction import hider
from pytest_crucible.records.secret_settings import is_secret, secrets_in

_NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
_COUNTS = ("max_tokens", "max_completion_tokens", "n", "best_of")
_WHOLE = ("seed", "top_k", "top_logprobs")
_TABLES = ("response_format", "logit_bias")
_UNCHECKED = ("stop", "logprobs", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity")
# Parameters of OpenAI's endpoints, and top_k, min_p and repetition_penalty of vLLM and llama.cpp. Anything else goes
# into `extra_body`.
PARAMETERS = (*_NUMBERS, *_COUNTS, *_WHOLE, *_TABLES, *_UNCHECKED)


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown parameter or a value of the wrong type.

    >>> check_parameters({"temprature": 0.7})
    Traceback (most recent call last):
        ...
    ValueError: unknown parameter 'temprature': did you mean 'temperature'?
    """
    for name, value in parameters.items():
        if name not in PARAMETERS:
            hint = suggest(
                name, PARAMETERS, otherwise="parameters of this server alone go into extra_body of the adapter"
            )
            raise ValueError(f"unknown parameter {name!r}: {hint}")
        if value is not None and (expected := _expectation(name, value)):
            raise ValueError(f"{name} must be {expected}, not {value!r}")


def _expectation(name: str, value: Any) -> str:
    """Return a description of the valid values; empty for a valid value."""
    if name in _NUMBERS:
        return "" if is_number(value) else "a number"
    if name in _COUNTS:
        return "" if type(value) is int and value > 0 else "a whole number from 1"
    if name in _WHOLE:
        return "" if type(value) is int else "a whole number"
    if name in _TABLES:
        return "" if isinstance(value, Mapping) else "a table"
    if name == "stop":
        return "" if read_stops(value) is not None else "a text or a list of texts, none of them empty"
    if name == "tools":
        return "" if isinstance(value, list | tuple) else "a list of tables"
    if name == "logprobs":
        return "" if isinstance(value, int) and value >= 0 else "true, false, or a number of alternatives"
    return ""


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
    "transport",
    "client",
)
MODES = ("chat", "completions")
DEFAULT_KEY = "OPENAI_API_KEY"
NODE = "{node}"
"""In a base URL: the address of the machine that sends. Replies do not depend on it, so the identity keeps the word."""
_NODE_HOST = "node.invalid"
# Types of the settings that are not texts.
_TYPES: dict[str, type] = {"stream": bool, "verify": bool, "extra_body": dict, "headers": dict}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_EXTRA = {
    "model": "write model = ... beside it",
    "stream": "write stream = true beside it",
    "messages": "what is asked is the sample's input",
    "prompt": "what is asked is the sample's input",
}
_RESERVED = ("host", "content-length", "transfer-encoding", "connection", "content-type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """An adapter's server, model, and how requests are sent."""

    name: str
    address: Address
    public_url: str
    """The base URL as it may be stored: variables in its query, and secret ones elsewhere, stay as their names, as does {node}."""
    node: str
    """The machine that {node} in the base URL means: each has a server of its own."""
    model: str
    mode: Mode | None
    system: str | None
    stream: bool
    extra_body: Mapping[str, Any]
    verify: bool
    ca_file: Path | None
    transport: str
    """The HTTP client, a name in `backends.http.transports`."""
    max_reply_bytes: int
    client: str
    """The function that returns an httpx.AsyncClient, as "module:function"; empty for none."""
    headers: Mapping[str, str] = field(repr=False)
    key_from: str
    """The origin of the key, or why none is sent; shown if the server refuses it."""
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def server(self) -> str:
        """The base URL and a digest of the credentials; backends with the same value share one limit."""
        url = self.public_url.replace(NODE, self.node)
        if not self.secrets:
            return url
        return f"{url} key {hashlib.sha256(json.dumps(self.secrets).encode()).hexdigest()[:12]}"

    @property
    def identity(self) -> str:
        """URL and model, and a digest of other settings that change replies."""
        options = {name: getattr(self, name) for name in ("mode", "system", "extra_body") if getattr(self, name)}
        model = f"{self.public_url}#{self.model}"
        if not options:
            return model
        return f"{model} {hashlib.sha256(json.dumps(options, sort_keys=True, default=repr).encode()).hexdigest()[:16]}"


def read_settings(
    adapter: Adapter, root: Path, environment: Mapping[str, str] = os.environ, node: str = ""
) -> Settings:
    """Read an adapter's options; `ca_file` is relative to `root`, and `node` is the address of this machine on a cluster.

    Raises SpecError for invalid settings.
    """
    options = _check_options(adapter)
    if NODE in options["base_url"] and not node:
        raise SpecError(
            f"adapter {adapter.name!r} has base_url = {options['base_url']!r}, and this process is on no node of a cluster: "
            "run it with --crucible-executor=ray, or write the address of one server"
        )
    address = _address(adapter, environment, node)
    key, key_from = _key(adapter, address, environment)
    headers = _headers(adapter, environment)
    authorization = {"authorization": f"Bearer {key}"} if key else {}
    ca_file = options.get("ca_file")
    return Settings(
        name=adapter.name,
        address=address,
        public_url=_public_url(options["base_url"], environment) or address.origin + address.path,
        node=node if NODE in options["base_url"] else "",
        model=options["model"],
        mode=options.get("mode"),
        system=options.get("system"),
        stream=options.get("stream", False),
        extra_body=options.get("extra_body", {}),
        verify=options.get("verify", True),
        ca_file=None if ca_file is None else root / Path(ca_file).expanduser(),
        transport=options.get("transport", "httpx" if "client" in options else "default"),
        max_reply_bytes=read_reply_limit(adapter),
        client=options.get("client", ""),
        headers={"content-type": "application/json", "accept-encoding": "identity", **authorization, **headers},
        key_from="the header 'authorization'" if "authorization" in headers else key_from,
        secrets=tuple(sorted({*([key] if key else []), *headers.values(), *secrets_in(options, environment)})),
    )


def _check_options(adapter: Adapter) -> Mapping[str, Any]:
    adapter_name, options = f"adapter {adapter.name!r}", adapter.options
    for name, value in options.items():
        if name not in OPTIONS:
            hint = suggest(name, OPTIONS, otherwise=f"expected {', '.join(OPTIONS)}, or parameters")
            raise SpecError(f"{adapter_name} has {name!r}, which is not a setting of backend 'openai': {hint}")
        expected = _TYPES.get(name, str)
        if not isinstance(value, expected) or value == "":
            kind = {bool: "true or false", dict: "a table"}.get(expected, "a text that is not empty")
            raise SpecError(f"{adapter_name} has {name} = {value!r}; expected {kind}")
    for name in ("base_url", "model"):
        if name not in options:
            raise SpecError(f"{adapter_name} has backend 'openai' but no {name!r}: add {name} = \"...\"")
    for name, instead in _NOT_EXTRA.items():
        if name in options.get("extra_body", {}):
            raise SpecError(
                f"{adapter_name} has {name!r} in extra_body, which is for settings of this server alone: {instead}"
            )
    if options.get("mode", "chat") not in MODES:
        raise SpecError(f"{adapter_name} has mode = {options['mode']!r}; expected {' or '.join(map(repr, MODES))}")
    if options.get("transport", "httpx") not in TRANSPORTS:
        raise SpecError(
            f"{adapter_name} has transport = {options['transport']!r}; expected {' or '.join(map(repr, TRANSPORTS))}"
        )
    if "client" in options and options.get("transport") == "default":
        raise SpecError(f'{adapter_name} has a client, which is for transport = "httpx": remove transport = "default"')
    if options.get("mode") == "completions" and "system" in options:
        raise SpecError(
            f"{adapter_name} has a system prompt and mode = 'completions', which sends a single text: remove one of them"
        )
    return options


def _address(adapter: Adapter, environment: Mapping[str, str], node: str) -> Address:
    host = f"[{node}]" if ":" in node else node
    try:
        address = parse_address(_fill(adapter.options["base_url"].replace(NODE, host), environment))
        if address.path.endswith("/completions"):
            raise ValueError(
                f"it is the address of one endpoint, {address.origin}{address.path}: remove what follows /v1"
            )
        for name, value in parse_qsl(urlsplit(adapter.options["base_url"]).query):
            if is_secret(name) and not value.startswith("$"):
                raise ValueError(f"it contains a key: write {name}=$NAME, with the name of an environment variable")
    except ValueError as error:
        hide = hider(secrets_in(adapter.options, environment))
        raise SpecError(hide(f"adapter {adapter.name!r} has an invalid base_url: {error}")) from None
    return address


def _public_url(text: str, environment: Mapping[str, str]) -> str:
    """Return the URL without secrets; empty if it would not be a URL then."""
    path, mark, query = text.partition("?")
    public = {name: _public_value(name, value) for name, value in environment.items()}
    try:
        url = parse_address(_fill(path.replace(NODE, _NODE_HOST), public) + mark + query).url
        return url.replace(_NODE_HOST, NODE)
    except ValueError:
        return ""


def _public_value(name: str, value: str) -> str:
    """Return the part of a variable that may be shown: a URL is shown up to its query."""
    if is_secret(name):
        return f"${name}"
    path, mark, _ = value.partition("?")
    return f"{path}?${name}" if mark else value


def _fill(text: str, environment: Mapping[str, str]) -> str:
    """Replace $NAME by environment variables. Raises ValueError for a variable that is not set."""
    try:
        return string.Template(text).substitute(environment).strip()
    except KeyError as error:
        raise ValueError(f"environment variable {error} is not set: set it before the run") from None
    except ValueError:
        raise ValueError("write $$ for a $") from None


def _key(adapter: Adapter, address: Address, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the key and its origin. The default key is not sent unencrypted to other machines."""
    variable = adapter.options.get("api_key_env")
    key = environment.get(variable or DEFAULT_KEY, "").strip()
    if variable and not key:
        raise SpecError(
            f"adapter {adapter.name!r} has api_key_env = {variable!r}, but that environment variable is not set: "
            "set it before the run"
        )
    if not key:
        return "", f"no key was sent, because {DEFAULT_KEY} is not set"
    if not variable and address.scheme == "http" and not is_loopback(address.host):
        return "", f"no key was sent, because {DEFAULT_KEY} is sent over http:// only if api_key_env names it"
    if not key.isascii() or not key.isprintable():
        raise SpecError(
            f"environment variable {variable or DEFAULT_KEY} is not a key: it has characters that a header cannot contain"
        )
    return key, f"the key is that of {variable or DEFAULT_KEY}"


def _headers(adapter: Adapter, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the adapter, by lower-case name. A value may contain environment variables: "Bearer $MY_KEY"."""
    headers, adapter_name = {}, f"adapter {adapter.name!r}"
    for name, value in adapter.options.get("headers", {}).items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise SpecError(f"{adapter_name} has a header {name!r}, which cannot be set: choose another name")
        if not isinstance(value, str):
            raise SpecError(f'{adapter_name} has a header {name!r} that is not a text: write {name} = "..."')
        try:
            text = _fill(value, environment)
        except ValueError as error:
            raise SpecError(f"{adapter_name} has a header {name!r} with an invalid value: {error}") from None
        if not text.isascii() or not text.isprintable():
            raise SpecError(
                f"{adapter_name} has a header {name!r} with characters that a header cannot contain: remove them"
            )
        headers[name.lower()] = text
    return headers
