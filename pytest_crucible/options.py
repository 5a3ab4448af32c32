"""The table of options: each row becomes a command-line flag, a configuration key, or both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pytest

from pytest_crucible.features import all_features, left_out_sentence
from pytest_crucible.features.row import Feature, Option

KeyType: TypeAlias = Literal["string", "int", "float", "bool", "linelist"]
OPTIONS = (
    # Those that a first week needs come first, in `pytest --help` and on the page of options.
    Option(
        "adapter",
        "adapter to evaluate: a configured name, recorded:PATH, local:PATH, local:NAME, tinker://... or openai+URL#MODEL",
        key="string",
        metavar="NAME",
    ),
    Option(
        "compare",
        "adapter to compare with, or run:ID or tag:NAME for stored replies; may be repeated",
        metavar="NAME",
        repeats=True,
        alias="--compare",
    ),
    Option("sample", "run this one sample alone, with its traceback and pdb", metavar="ID"),
    Option("report", "write a report, its format by the extension; may be repeated", metavar="PATH", repeats=True),
    Option("json", "write the whole run as JSON", metavar="PATH"),
    Option("strict", "targets must be proven, as with decide='bound'", False, key="bool", flag=True),
    Option(
        "undecided",
        "effect of an undecided verdict: warn (reported as skipped) or fail",
        "warn",
        key="string",
        choices=("warn", "fail"),
        command_line=False,
    ),
    Option(
        "cache",
        "reply cache: auto (read and write), only (never call a model), off, refresh (call again and overwrite)",
        "auto",
        key="string",
        metavar="MODE",
        choices=("auto", "only", "off", "refresh"),
        environment="CRUCIBLE_CACHE",
    ),
    Option("tag", "name to find this run by, as in --compare=tag:NAME; may be repeated", metavar="NAME", repeats=True),
    Option(
        "store",
        "run store: a path below pytest's root directory, or a database URL",
        ".crucible/crucible.db",
        key="string",
        metavar="WHERE",
        environment="CRUCIBLE_STORE",
    ),
    Option("resume", "resume the latest run: request only what is still unanswered", False, flag=True),
    Option("concurrency", "samples in flight at a time", 64, key="int", type=int, metavar="N"),
    Option("timeout", "seconds after which a sample fails (0: never)", 300.0, key="float", type=float, metavar="S"),
    Option(
        "budget",
        "what the run may spend: '5 USD', '200k tokens' or '1000 requests'; may be repeated",
        key="string",
        metavar="AMOUNT",
        repeats=True,
    ),
    Option(
        "deadline",
        "stop sending requests this long after the run starts, for example '30 min'",
        key="string",
        metavar="TIME",
    ),
    Option("alpha", "error rate of the session's claims", 0.05, key="float", type=float, metavar="A"),
    Option("seed", "seed of all random choices", 0, key="int", type=int, metavar="N"),
    Option("fresh", "query the baselines again, even if their stored replies could be used", False, flag=True),
    Option(
        "memory",
        "the replies that decide gates: off (those of this session), or pool (those of all sessions, with alpha split over them)",
        "off",
        key="string",
        choices=("off", "pool"),
        command_line=False,
    ),
    Option(
        "reasoning",
        "reasoning before an answer: strip (stored and shown, not scored) or keep (metrics score it with the text)",
        "strip",
        key="string",
        choices=("strip", "keep"),
        command_line=False,
    ),
    Option(
        "equal_inputs",
        "samples with equal input, expected value and metadata: group (one group) or keep (each counts alone)",
        "group",
        key="string",
        metavar="MODE",
        choices=("group", "keep"),
    ),
    Option("run_code", "run code that a model wrote, in the sandbox", False, flag=True),
    Option(
        "tinker",
        "service of the Tinker fixtures and adapters: local (a small model on this machine) or hosted (needs a key)",
        "local",
        key="string",
        metavar="WHERE",
        choices=("local", "hosted"),
    ),
    Option(
        "tinker_base",
        "base model of the Tinker fixtures: a directory when local, a model's name when hosted",
        key="string",
        command_line=False,
        environment="CRUCIBLE_TINKER_BASE",
    ),
    Option(
        "trace",
        "what is stored of calls: on (prompts and replies, and decisions) or off (their hashes, parameters and model names)",
        "on",
        key="string",
        metavar="MODE",
        choices=("on", "off"),
    ),
    Option("otel", "export spans and metrics to OpenTelemetry", False, key="bool", flag=True),
)


def features_of(plugins: pytest.PytestPluginManager) -> Iterator[Feature]:
    """Yield the features with options, markers, arguments or fixtures, without those that `-p no:crucible-NAME` leaves out."""
    return (feature for feature in all_features() if not plugins.is_blocked(feature.plugin_name))


def all_options(plugins: pytest.PytestPluginManager) -> Iterator[Option]:
    """Yield the options of the core, and those of the session's features."""
    yield from OPTIONS
    for feature in features_of(plugins):
        yield from feature.options


def add_flags(parser: pytest.Parser, plugins: pytest.PytestPluginManager) -> None:
    """Register the command-line option of each row, and of the features' rows."""
    group = parser.getgroup("crucible", "experiments on language models")
    for option in all_options(plugins):
        if option.command_line:
            _declare_flag(group, option)


def add_keys(parser: pytest.Parser) -> None:
    """Register the configuration key of each row, and of the features' rows."""
    # Also the keys of left-out features, which are refused: pytest would only warn about an unknown one.
    for option in (*OPTIONS, *(option for feature in all_features() for option in feature.options)):
        if option.key is not None:
            _declare_key(parser, option, "linelist" if option.repeats else option.key)


def add_aliases(parser: pytest.Parser, arguments: Sequence[str] | None) -> None:
    """Register `--compare`, unless another plugin has it: the long name works in any case.

    Only if it is among the arguments; None stands for all, for the help. To look for it parses once more: 0.15 ms.
    """
    group = parser.getgroup("crucible")
    for option in OPTIONS:
        alias = option.alias
        if alias is None or (arguments is not None and not any(word.startswith(alias) for word in arguments)):
            continue
        if _is_free(parser, alias):
            shape = {"dest": f"crucible_{option.name}", "action": "append", "metavar": option.metavar}
            group.addoption(alias, help=f"short for --crucible-{option.name}", **shape)


def _is_free(parser: pytest.Parser, name: str) -> bool:
    try:
        return name in parser.parse_known_and_unknown_args([name])[1]
    # Another plugin's option, which needs a value.
    except pytest.UsageError:
        return False


def check_options(config: pytest.Config) -> Mapping[str, Any]:
    """Return the value of each option by name. Raises pytest.UsageError with the option's name."""
    _refuse_left_out_keys(config)
    values = {option.name: _value(config, option) for option in all_options(config.pluginmanager)}
    for wrong, sentence in (*_limits(values), *_limits_of_features(features_of(config.pluginmanager), values)):
        if wrong:
            raise pytest.UsageError(sentence)
    return values


def redacts_findings(config: pytest.Config) -> bool:
    """Return whether an option redacts texts from before the first module is collected."""
    return any(_value(config, option) for option in all_options(config.pluginmanager) if option.redacts)


def _refuse_left_out_keys(config: pytest.Config) -> None:
    """Raise pytest.UsageError for a configuration key of a feature that is left out."""
    for feature in all_features():
        for option in feature.options if config.pluginmanager.is_blocked(feature.plugin_name) else ():
            if option.key is not None and _key(config, option) is not None:
                raise pytest.UsageError(left_out_sentence(f"crucible_{option.name}", feature))


def _declare_key(parser: pytest.Parser, option: Option, kind: KeyType) -> None:
    parser.addini(f"crucible_{option.name}", f"{option.help} (default: {option.default})", kind, default=None)


def _declare_flag(group: pytest.OptionGroup, option: Option) -> None:
    # No default here: None means that the command line does not set the option.
    shape: dict[str, Any] = {"dest": f"crucible_{option.name}", "default": None, "help": option.help}
    if option.flag:
        shape["action"] = "store_true"
    else:
        shape |= {"metavar": option.metavar, "type": option.type, "action": "append" if option.repeats else "store"}
    group.addoption(f"--crucible-{option.name.replace('_', '-')}", **shape)


def _value(config: pytest.Config, option: Option) -> Any:
    value = config.getoption(f"crucible_{option.name}", None) if option.command_line else None
    flag = f"--crucible-{option.name.replace('_', '-')}"
    # As with --crucible-adapter="$ADAPTER" where the variable is not set.
    if value == "" or (isinstance(value, list) and "" in value):
        raise pytest.UsageError(f"{flag} is given but the value is empty: write a value, or leave the option out")
    setting = f"{flag}={value}"
    if value is None and option.environment is not None:
        value = os.environ.get(option.environment)
        setting = f"{option.environment}={value}"
    if value is None and option.key is not None:
        value = _key(config, option)
        setting = f"crucible_{option.name} = {value!r}"
    if value is None:
        value = [] if option.repeats else option.default
    # A configuration key may hold a single value, the command line holds a list.
    if option.repeats and isinstance(value, str):
        value = [value]
    if option.choices and value not in option.choices:
        raise pytest.UsageError(f"{setting}: write one of {', '.join(option.choices)}")
    return tuple(value) if option.repeats else value


def _key(config: pytest.Config, option: Option) -> Any:
    try:
        return config.getini(f"crucible_{option.name}")
    except (TypeError, ValueError, pytest.UsageError) as error:
        if option.repeats and (value := _single_string(config, option)) is not None:
            return value
        kind = f"{option.key}, nor a list of them" if option.repeats else option.key
        raise pytest.UsageError(
            f"crucible_{option.name} in pytest's configuration is not a valid {kind}: {error}"
        ) from error


def _single_string(config: pytest.Config, option: Option) -> str | None:
    """Return the value of a key that is declared as a list, and is a string in the table `[tool.pytest]`; else None.

    That table of pytest 9 has values of TOML's types, and pytest accepts one type for each key.
    """
    _declare_key(config._parser, option, "string")
    with contextlib.suppress(TypeError, ValueError, pytest.UsageError):
        return str(config.getini(f"crucible_{option.name}"))
    return None


def _limits(values: Mapping[str, Any]) -> tuple[tuple[bool, str], ...]:
    concurrency, alpha, timeout = values["concurrency"], values["alpha"], values["timeout"]
    return (
        (concurrency < 1, f"crucible_concurrency is {concurrency}: at least 1 sample at a time"),
        (
            not 0 < alpha < 0.5,
            f"crucible_alpha is {alpha:g}: an error rate above 0 and below 0.5, such as 0.05",
        ),
        (
            not _is_time(values["deadline"]),
            f"crucible_deadline is {values['deadline']!r}: write a time such as '30 min'",
        ),
        (
            values["fresh"] and values["cache"] == "only",
            "--crucible-fresh queries the baselines again, and --crucible-cache=only calls no model: give one of them",
        ),
        (timeout < 0, f"crucible_timeout is {timeout:g}: seconds, or 0 for no limit"),
    )


def _limits_of_features(features: Iterable[Feature], values: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield the checks of features of which an option has a value, and sentences for those that are not met."""
    for feature in features:
        if feature.check_options and any(values[option.name] != option.default for option in feature.options):
            from pytest_crucible.records.object_reference import load_object

            yield from load_object(feature.check_options)(values)


def _is_time(deadline: str | None) -> bool:
    if deadline is None:
        return True
    from pytest_crucible.records.settings import seconds_of

    return bool(seconds_of(deadline))
