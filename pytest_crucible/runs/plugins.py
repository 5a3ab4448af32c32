"""Plugins without pytest: the features, and modules that installed packages name in the entry point group `pytest_crucible`.

The `crucible` program and stored runs know no conftest.py file: what they use has to be installed.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

import pluggy

from pytest_crucible import builtin, hookspecs
from pytest_crucible.features import register_features
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_crucible.features.row import Placed
    from pytest_crucible.importers.results import Reader
    from pytest_crucible.records import Plan
    from pytest_crucible.records.datasets import VariantRules
    from pytest_crucible.sections import Section

GROUP = "pytest_crucible"


class ProgramPlugins(pluggy.PluginManager):
    """A plugin manager that treats every function with our hook prefix as an implementation, as pytest does."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None and name.startswith("pytest_crucible_") and inspect.isroutine(getattr(plugin, name)):
            unmarked: pluggy.HookimplOpts = {
                "wrapper": False,
                "hookwrapper": False,
                "optionalhook": False,
                "tryfirst": False,
                "trylast": False,
                "specname": None,
            }
            return unmarked
        return options


@cache
def program_plugins() -> ProgramPlugins:
    """Return the built-in plugin and those that are installed. Raises SpecError for one that cannot be loaded."""
    plugins = ProgramPlugins("pytest")
    plugins.add_hookspecs(hookspecs)
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        try:
            plugins.register(entry.load(), entry.name)
        # A plugin can raise anything while it is imported.
        except Exception as error:
            raise SpecError(
                f"plugin {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; "
                "update or uninstall the package that it is from"
            ) from error
    # Registered last: pluggy calls the last plugin first, so the built-in commands come first in the help.
    register_features(plugins)
    plugins.register(builtin, "crucible-builtin")
    return plugins


def commands() -> dict[str, Any]:
    """Return all commands by name, in the order of the help. Raises SpecError when two plugins offer one name."""
    merged = builtin.merge_offers(program_plugins().hook.pytest_crucible_commands(), "command")
    groups = {name.partition(" ")[0] for name in merged if " " in name and " --" not in name}
    for name in groups & set(merged):
        raise SpecError(f"command {name!r} is offered by two plugins: rename one")
    return merged


def pages_of(command: str) -> dict[str, str]:
    """Return option -> name of a page: `--by` -> `show --by`, a command that `show` calls where it is given the option."""
    return {name.rpartition(" ")[2]: name for name in commands() if name.startswith(f"{command} --")}


def metrics() -> dict[str, Any]:
    """Return the metrics that are installed, by name. Raises SpecError when two plugins offer one name."""
    return builtin.merge_offers(reversed(program_plugins().hook.pytest_crucible_metrics(config=None)), "metric")


def importers() -> dict[str, Reader]:
    """Return the readers of all formats by the harness's name, in the order in which they are tried. Raises SpecError."""
    offers = builtin.merge_offers(reversed(program_plugins().hook.pytest_crucible_importers()), "importer")
    return {name: load_object(reader) for name, reader in offers.items()}


@dataclass(frozen=True)
class Extensions:
    """The additions of plugins and features to the analysis of a run: sections of its reports, and hooks."""

    hook: pluggy.HookRelay
    sections: Mapping[str, Section | Placed]


def variant_rules(plan: Plan) -> VariantRules:
    """Return what the feature that made the variants of a plan knows of them."""
    from pytest_crucible.records.datasets import VariantRules

    if not plan.variants:
        return VariantRules()
    rules: VariantRules | None = program_plugins().hook.pytest_crucible_variant_rules(plan=plan)
    return rules or VariantRules()


def load_extensions(hook: pluggy.HookRelay, config: Any = None) -> Extensions:
    """Return the extensions of a plugin manager. Raises SpecError for a section that cannot be loaded.

    `config` is that of a pytest session; None without one.
    """
    from pytest_crucible.sections.run import load_sections

    return Extensions(hook, load_sections(builtin.ordered_sections(hook.pytest_crucible_sections(config=config))))


@cache
def installed_extensions() -> Extensions:
    """Return the extensions that are installed, for stored runs."""
    return load_extensions(program_plugins().hook)
