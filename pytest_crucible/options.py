"""The one table of options. Each row becomes a command-line flag, a configuration key, or both; `read` merges them once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from pytest_crucible.durations import seconds_of


@dataclass(frozen=True)
class Option:
    """One option. `key` is the configuration key's type; None makes the option command line only."""

    name: str
    help: str
    default: Any = None
    key: Literal["string", "int", "float", "bool"] | None = None
    metavar: str | None = None
    type: type = str
    repeats: bool = False
    flag: bool = False
    alias: str | None = None
    choices: tuple[str, ...] | None = None
    command_line: bool = True
    environment: str | None = None
    """A variable that says the same, below the command line and above the configuration."""


OPTIONS = (
    Option(
        "adapter",
        "adapter to judge: a configured name, recorded:PATH, local:PATH, local:NAME, tinker://... or openai+URL#MODEL",
        key="string",
        metavar="NAME",
    ),
    Option(
        "compare",
        "adapter to compare with, or run:ID or tag:NAME for stored answers; may be repeated",
        metavar="NAME",
        repeats=True,
        alias="--compare",
    ),
    Option("concurrency", "samples asked at a time", 64, key="int", type=int, metavar="N"),
    Option("timeout", "seconds until a sample is failed (0: never)", 300.0, key="float", type=float, metavar="S"),
    Option(
        "deadline",
        "when the run asks nothing more: a time after its begin, such as '30 min'",
        key="string",
        metavar="TIME",
    ),
    Option(
        "budget",
        "what the run may spend: '5 USD', '200k tokens' or '1000 requests'; may be repeated",
        key="string",
        metavar="AMOUNT",
        repeats=True,
    ),
    Option("seed", "seed of everything that is drawn", 0, key="int", type=int, metavar="N"),
    Option("alpha", "error rate of the session's claims", 0.05, key="float", type=float, metavar="A"),
    Option(
        "store",
        "run store: a path below pytest's root directory, or a database URL",
        ".crucible/crucible.db",
        key="string",
        metavar="WHERE",
        environment="CRUCIBLE_STORE",
    ),
    Option("tag", "name to find this run by, as in --compare=tag:NAME; may be repeated", metavar="NAME", repeats=True),
    Option("strict", "targets must be proven, as with decide='bound'", False, key="bool", flag=True),
    Option("fresh", "ask the baselines anew, even where stored answers would do", False, flag=True),
    Option(
        "cache",
        "replies that were paid for before: auto (use and keep), only (ask nobody), off, refresh (ask anew and keep)",
        "auto",
        key="string",
        metavar="MODE",
        choices=("auto", "only", "off", "refresh"),
        environment="CRUCIBLE_CACHE",
    ),
    Option("resume", "go on with the latest run: only what it has not answered is asked", False, flag=True),
    Option("train", "train the adapters that have a recipe and are not trained yet", False, key="bool", flag=True),
    Option("run_code", "run code that a model wrote, in the sandbox", False, flag=True),
    Option("sample", "run this one sample alone, with its traceback and pdb", metavar="ID"),
    Option("json", "write the whole run as JSON", metavar="PATH"),
    Option("report", "write a report, its format by the extension; may be repeated", metavar="PATH", repeats=True),
    Option("otel", "tell OpenTelemetry what happens, as spans and metrics", False, key="bool", flag=True),
    Option(
        "tinker",
        "where the Tinker fixtures and adapters go: local (a small model on this machine) or hosted (needs a key)",
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
        "undecided",
        "what an undecided verdict does: warn (reported as skipped) or fail",
        "warn",
        key="string",
        choices=("warn", "fail"),
        command_line=False,
    ),
)


@dataclass(frozen=True)
class Settings:
    """What the options say together: command line over environment over configuration over default."""

    adapter: str | None
    compare: tuple[str, ...]
    concurrency: int
    timeout: float
    deadline: str | None
    budget: tuple[str, ...]
    seed: int
    alpha: float
    store: str
    tag: tuple[str, ...]
    strict: bool
    fresh: bool
    cache: str
    resume: bool
    train: bool
    run_code: bool
    sample: str | None
    json: str | None
    report: tuple[str, ...]
    otel: bool
    undecided: str
    tinker: str
    tinker_base: str | None

    @property
    def deadline_s(self) -> float | None:
        """Seconds from the run's begin; None where it may take as long as it takes."""
        return None if self.deadline is None else seconds_of(self.deadline)


def declare(parser: pytest.Parser) -> None:
    """Register every row of the table."""
    group = parser.getgroup("crucible", "experiments on language models")
    for option in OPTIONS:
        if option.command_line:
            _declare_flag(group, option)
        if option.key is not None:
            parser.addini(
                f"crucible_{option.name}", f"{option.help} (default: {option.default})", option.key, default=None
            )


def declare_aliases(parser: pytest.Parser) -> None:
    """Register `--compare`, unless somebody else has it: ours is always reachable by its long name."""
    group = parser.getgroup("crucible")
    for option in OPTIONS:
        if option.alias is not None and _is_free(parser, option.alias):
            shape = {"dest": f"crucible_{option.name}", "action": "append", "metavar": option.metavar}
            group.addoption(option.alias, help=f"short for --crucible-{option.name}", **shape)


def _is_free(parser: pytest.Parser, name: str) -> bool:
    try:
        return name in parser.parse_known_and_unknown_args([name])[1]
    except pytest.UsageError:  # it is known, and needs a value
        return False


def read(config: pytest.Config) -> Settings:
    """Merge command line, environment, configuration and defaults. Raises pytest.UsageError with the option's name."""
    settings = Settings(**{option.name: _value(config, option) for option in OPTIONS})
    for wrong, sentence in _limits(settings):
        if wrong:
            raise pytest.UsageError(sentence)
    return settings


def _declare_flag(group: pytest.OptionGroup, option: Option) -> None:
    shape: dict[str, Any] = {"dest": f"crucible_{option.name}", "default": None, "help": option.help}
    if option.flag:
        shape["action"] = "store_true"
    else:
        shape |= {"metavar": option.metavar, "type": option.type, "action": "append" if option.repeats else "store"}
    group.addoption(f"--crucible-{option.name.replace('_', '-')}", **shape)


def _value(config: pytest.Config, option: Option) -> Any:
    given = config.getoption(f"crucible_{option.name}", None) if option.command_line else None
    if given is None and option.environment is not None:
        given = os.environ.get(option.environment)
    if given is None and option.key is not None:
        given = _key(config, option)
    if given is None:
        given = [] if option.repeats else option.default
    if option.repeats and isinstance(given, str):  # a key says it once
        given = [given]
    if option.choices and given not in option.choices:
        raise pytest.UsageError(f"crucible_{option.name} = {given!r}: write one of {', '.join(option.choices)}")
    return tuple(given) if option.repeats else given


def _key(config: pytest.Config, option: Option) -> Any:
    try:
        return config.getini(f"crucible_{option.name}")
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise pytest.UsageError(
            f"crucible_{option.name} in pytest's configuration is no {option.key}: {error}"
        ) from error


def _limits(settings: Settings) -> tuple[tuple[bool, str], ...]:
    return (
        (settings.concurrency < 1, f"crucible_concurrency is {settings.concurrency}: at least 1 sample at a time"),
        (
            not 0 < settings.alpha < 0.5,
            f"crucible_alpha is {settings.alpha:g}: an error rate above 0 and below 0.5, such as 0.05",
        ),
        (
            settings.deadline is not None and not settings.deadline_s,
            f"crucible_deadline is {settings.deadline!r}: write a time such as '30 min'",
        ),
        (
            settings.fresh and settings.cache == "only",
            "--crucible-fresh asks the baselines anew, and --crucible-cache=only asks nobody: give one of them",
        ),
        (settings.timeout < 0, f"crucible_timeout is {settings.timeout:g}: seconds, or 0 for no limit"),
    )
