"""`crucible doctor --server`, and the options that name a server."""

from __future__ import annotations

import click

from pytest_crucible.backends.openai.probe import probe_server, server_adapter
from pytest_crucible.commands.options import add_options, json_option, print_result

server_options = add_options(
    click.option("--server", "url", metavar="URL", help="Base URL of an OpenAI-compatible server, up to /v1."),
    click.option(
        "--model", default="", metavar="NAME", show_default="the server's only one", help="Model of the server."
    ),
    click.option("--key-env", default="", metavar="NAME", help="Environment variable with the key."),
)
"""`--server`, `--model` and `--key-env`."""


@click.command("doctor")
@server_options
@json_option
def check_server(url: str, model: str, key_env: str, as_json: bool) -> int:
    """Try a server with at most six short requests: key, model, limits, streaming, log-probabilities, JSON schema.

    Exits 1 when it does not reply. What it lacks is listed: only suites that use it need it.
    """
    results = probe_server(server_adapter(url, model, key_env))
    lines = [f"{result.state:<5}  {result.subject}: {result.detail}" for result in results]
    print_result(lines, results, as_json=as_json)
    return int(any(result.state == "fails" for result in results))
