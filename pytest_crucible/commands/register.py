"""`crucible register`: make an adapter a version of a model."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.registry_options import registry_folder, user_name, utc_time
from pytest_crucible.records.registry import Version
from pytest_crucible.registry.versions import check_model, register_version
from pytest_crucible.store.runs import RunStore


@click.command("register", short_help="Make an adapter a version of a model.")
@click.argument("adapter")
@click.option("--model", required=True, metavar="NAME", help="The model that it is a version of.")
@store_option
@json_option
def command(adapter: str, model: str, store: str, as_json: bool) -> None:
    """Register ADAPTER, a name of the configuration or a URI, as a draft of a model: NAME@1, NAME@2 and so on.

    Its identity, table and lineage are frozen, and local weights are copied. Registering it again gives the same number.
    """
    # Imported here: it imports pytest, whose configuration and conftest.py open the adapters.
    from pytest_crucible.adapters.freeze import freeze_adapter
    from pytest_crucible.session.pytest_project import with_adapters

    check_model(model)
    opened = RunStore(store)

    def register(context: AdapterContext) -> tuple[Version, bool]:
        frozen = freeze_adapter(adapter, context)
        at = utc_time().isoformat(timespec="milliseconds")
        folder = registry_folder(store)
        return register_version(opened, model, frozen, folder, at=at, by=user_name(), hide=context.hide)

    try:
        version, is_new = with_adapters(Path.cwd(), opened, register)
    finally:
        opened.close()
    line = f"{adapter} is {version.name}" + (", a draft" if is_new else ", as before")
    print_result([line], {"version": version.name, "new": is_new, "identity": version.identity}, as_json=as_json)
