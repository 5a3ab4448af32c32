"""Facts about a feature that a session needs before its hooks are imported: options, markers, words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pytest_crucible.records import Plan


class Option:
    """One option. `key` is the type of its configuration key, None if it is for the command line only.

    `environment` is an environment variable for it, below the command line and above the configuration. Where one that `redacts`
    has a value, texts are redacted from before the first module is collected.
    """

    # Written out: a dataclass takes a millisecond to make, in every pytest session.
    def __init__(
        self,
        name: str,
        help: str,
        default: Any = None,
        *,
        key: Literal["string", "int", "float", "bool"] | None = None,
        metavar: str | None = None,
        type: Callable[[str], Any] = str,
        repeats: bool = False,
        flag: bool = False,
        alias: str | None = None,
        choices: tuple[str, ...] | None = None,
        command_line: bool = True,
        environment: str | None = None,
        redacts: bool = False,
    ) -> None:
        self.name, self.help, self.default, self.key, self.metavar, self.type = name, help, default, key, metavar, type
        self.repeats, self.flag, self.alias, self.choices = repeats, flag, alias, choices
        self.command_line, self.environment, self.redacts = command_line, environment, redacts


class Placed:
    """A section of the package with its place in the reports. Sections of other plugins have no number and come after them.

    `section` names a module, or "module:attribute", which is imported for the first plan that it concerns: `concerns` returns
    whether it may have anything to show of a plan. With `of_counts` it reads no single replies, and is computed also of an
    experiment that is larger than memory. With `of_explanations` it belongs to runs that explain replies, and to no others.
    """

    __slots__ = ("concerns", "of_counts", "of_explanations", "place", "section")

    def __init__(
        self,
        place: int,
        section: str,
        concerns: Callable[[Plan], bool] = lambda plan: True,
        *,
        of_counts: bool = False,
        of_explanations: bool = False,
    ) -> None:
        self.place, self.section, self.concerns, self.of_counts = place, section, concerns, of_counts
        self.of_explanations = of_explanations


class Command(str):
    """The "module:attribute" of a command with its line in the program's help, which then imports no command."""

    summary: str

    def __new__(cls, reference: str, summary: str) -> Command:
        command = super().__new__(cls, reference)
        command.summary = summary
        return command


class Feature:
    """The front row of a feature: what pytest and the core read of it in every session.

    Everything else of the feature is in its `plugin` module, which is registered as `crucible-NAME` when it is first needed.
    """

    def __init__(
        self,
        name: str,
        *,
        options: tuple[Option, ...] = (),
        markers: tuple[str, ...] = (),
        judging_markers: tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
        adapter_keys: tuple[str, ...] = (),
        adapter_names: Callable[[str], bool] | None = None,
        fixtures: Mapping[str, str] | None = None,
        senders: tuple[str, ...] = (),
        test_fixtures: Mapping[str, tuple[str, str]] | None = None,
        check_options: str = "",
        tables: Mapping[str, str] | None = None,
    ) -> None:
        """`markers` are lines of `pytest --markers`; replies do not depend on `judging_markers`.

        `arguments` are those of `@pytest.mark.crucible`, `adapter_keys` words in the table of an adapter, `adapter_names`
        returns whether a name means an adapter of the feature, and `fixtures` are the arguments that experiments bind for each
        call, with their help; `senders` are those of them that send requests to the arm. `test_fixtures` are fixtures of all
        tests: their help, and a function "module:name" of the request. `check_options` names a function "module:name" from all
        values to pairs (is wrong, sentence); it is called where an option of the feature has a value. `tables` are rows for
        tables of the core, such as kinds of adapter, as "module:name".
        """
        self.name, self.options, self.markers, self.arguments = name, options, markers, arguments
        self.adapter_keys, self.check_options = adapter_keys, check_options
        self.judging_markers, self.adapter_names = judging_markers, adapter_names
        self.senders = senders
        self.fixtures, self.test_fixtures, self.tables = fixtures or {}, test_fixtures or {}, tables or {}

    @property
    def plugin_name(self) -> str:
        """The name of its plugin: `-p no:NAME` leaves the feature out."""
        return f"crucible-{self.name}"

    @property
    def plugin_module(self) -> str:
        """The module with its hooks."""
        return f"pytest_crucible.features.{self.name}.plugin"

    @property
    def marker_names(self) -> tuple[str, ...]:
        return tuple(line.partition(":")[0].partition("(")[0] for line in self.markers)
