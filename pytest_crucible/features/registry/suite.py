"""Records what pytest collected of a suite: the demands of its experiments, and those that it leaves out, with the reason.

A demand is a text on something that can make a verdict easier to meet. A run records those of its own experiments, and the gate of
a model holds them. Nothing here opens an adapter or a judge.

`python -m pytest_crucible.features.registry.suite FILE ARGUMENTS` collects a suite and writes its record, in a process of its own,
so that nothing of an earlier session, and no variable that its caller has set, changes what is collected.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

from pytest_crucible import builtin
from pytest_crucible.adapters.config import describe_table
from pytest_crucible.features import register_features
from pytest_crucible.features.registry.suite_record import Demands, SuiteRecord
from pytest_crucible.records import Contrast, Dataset, MetricFacts
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.serialize import canonical, to_plain
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.experiment_data import SessionDatasets, named_metrics
from pytest_crucible.session.hooks import register_hooks
from pytest_crucible.session.items import function_nodeid, group_by_function, unique_ids, uses_crucible
from pytest_crucible.session.marks import comparisons, experiment_mark, scored_facts, targets
from pytest_crucible.session.pytest_project import run_pytest
from pytest_crucible.session.settings import read_settings
from pytest_crucible.signs import JUDGING, is_experiment
from pytest_crucible.stats.number_format import quantity

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection


DESELECTED = "deselected"
NOT_PLANNED = "failed before the run"


def record_collected(collection: ExperimentCollection) -> SuiteRecord:
    """Return the record of what a session runs and leaves out."""
    marked, failed = collection.marked, collection.failures.names()
    deselected = marked.without({*collection.experiments, *collection.joined})
    left_out = {**dict.fromkeys(deselected, DESELECTED), **dict.fromkeys(failed, NOT_PLANNED)}
    planned = [item for item in collection.items if item.nodeid not in failed]
    return record_suite(
        collection.config, collection.settings, planned, marked.functions, collection.datasets, left_out
    )


def record_suite(
    config: pytest.Config,
    settings: Settings,
    items: Iterable[pytest.Item],
    functions: Mapping[str, Callable[..., Any]],
    data: SessionDatasets,
    left_out: Mapping[str, str],
) -> SuiteRecord:
    """Return the record of the items that are run. `functions` are those of experiments as they were written, by nodeid.

    `left_out` are the experiments and joined tests that are not among them, with the reason.
    """
    tests = [item for item in items if isinstance(item, pytest.Function)]
    judged = [item for item in tests if has_verdicts(item)]
    # Before a feature leaves samples out: another session may keep them.
    experiments = {item.nodeid: item for item in judged if item.nodeid in functions}
    demands: dict[str, Demands] = {
        nodeid: experiment_demands(item, functions[nodeid], data.whole(item, experiment_mark(item))[1], settings)
        for nodeid, item in experiments.items()
    }
    joined = group_by_function(item for item in judged if item.nodeid not in functions)
    demands |= {nodeid: joined_demands(group, settings) for nodeid, group in joined.items()}
    unbelieved = dict(_skipped_tests(judged, functions))
    return SuiteRecord(
        settings=session_demands(config, settings),
        experiments=demands,
        without_verdict=tuple(item.nodeid for item in tests if item.nodeid in functions and item.nodeid not in demands),
        left_out={**left_out, **unbelieved},
    )


def has_verdicts(item: pytest.Item) -> bool:
    """Return whether an item has a target, or a comparison that gives a verdict."""
    return bool(targets(item) or any(contrast.decides for contrast in comparisons(item)))


def _skipped_tests(items: Iterable[pytest.Function], experiments: Collection[str]) -> Iterator[tuple[str, str]]:
    for item in items:
        reason = _skip_reason(item)
        if reason:
            yield item.nodeid if item.nodeid in experiments else function_nodeid(item), reason


def _skip_reason(item: pytest.Item) -> str:
    skipped = evaluate_skip_marks(item)
    if skipped is not None:
        return f"skipped ({skipped.reason})"
    expected = None if item.config.option.runxfail else evaluate_xfail_marks(item)
    return "" if expected is None else f"expected to fail ({expected.reason or 'no reason given'})"


TIMES = ("latency_s", "first_token_s")
"""Metrics that depend on the number of requests in flight."""


def experiment_demands(
    item: pytest.Function, function: Callable[..., Any], dataset: Dataset, settings: Settings
) -> dict[str, str]:
    """Return the demands of a marked item. `dataset` has all samples that its marker selects."""
    mark = experiment_mark(item)
    timeout = settings.timeout if mark.timeout is None else float(mark.timeout)
    hook = item.config.hook.pytest_crucible_demands
    values = {
        "dataset": f"{dataset.name}, {quantity(len(dataset.samples), 'sample')}, {dataset.sha256}",
        **_verdict_demands(item, settings),
        **{
            f"metric {metric.name}": f"{_facts_text(metric.facts)}, {_sha(list(sources(metric.function)))}"
            for metric in named_metrics(item.config, mark.metrics)
        },
        "test function": _function_digest(item, function),
        "repeats": str(mark.epochs * (settings.option("rounds") or 1)),
        "timeout": f"{timeout!r} s",
        "equal inputs": "" if settings.equal_inputs == "group" else settings.equal_inputs,
        **{name: text for demands in hook(item=item, settings=settings) for name, text in demands.items()},
    }
    return {name: value for name, value in values.items() if value}


def joined_demands(items: Sequence[pytest.Function], settings: Settings) -> dict[str, str]:
    """Return the demands of an ordinary parametrised test whose items are the samples."""
    item, ids = items[0], unique_ids(items)
    return {
        "dataset": f"{quantity(len(ids), 'item')}, {_sha(sorted(ids))}",
        **_verdict_demands(item, settings),
        "test function": _function_digest(item, item.function),
    }


def _verdict_demands(item: pytest.Function, settings: Settings) -> dict[str, str]:
    """Return targets, comparisons, the numbers that the test scores itself, and the conftest.py files that apply to it."""
    declared_targets, declared = targets(item), comparisons(item)
    names = {name for measure in (*declared_targets, *declared) for name in measure.metrics}
    return {
        **{f"target {target.text}": target.decide for target in declared_targets},
        **_comparison_texts(declared),
        **{f"metric {facts.name}": _facts_text(facts) for facts in scored_facts(item)},
        **dict(conftest_files(item)),
        **({"requests in flight": str(settings.concurrency)} if names.intersection(TIMES) else {}),
    }


def _comparison_texts(declared: Sequence[Contrast]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    for contrast in declared:
        texts.setdefault(f"comparison of {contrast.expression}", []).append(_comparison_text(contrast))
    return {name: "; ".join(sorted(claims)) for name, claims in texts.items()}


def _comparison_text(contrast: Contrast) -> str:
    unit = " of the ratio" if contrast.is_relative else ""
    margin = "" if contrast.margin is None else f" by {contrast.margin!r}{unit}"
    relevant = "" if contrast.relevant is None else f", relevant {contrast.relevant!r}{unit}"
    return f"{contrast.alternative}{margin}{relevant}"


def _facts_text(facts: MetricFacts) -> str:
    parts = [
        facts.kind or "of any kind",
        f"{facts.direction} is better" if facts.is_directed else "neither direction is better",
        f"from {facts.low!r} to {facts.high!r}",
        "" if facts.reach is None else f"reach {facts.reach!r}",
        "" if facts.relevant is None else f"relevant {facts.relevant!r}",
        f"version {facts.version}" if facts.version else "",
    ]
    return ", ".join(part for part in parts if part)


def _function_digest(item: pytest.Function, function: Callable[..., Any]) -> str:
    """Return the hash of a test function, of what it reads, and of the suite's fixtures that it uses."""
    return _sha([*sources(function, item.cls), *_fixture_sources(item)])


def _fixture_sources(item: pytest.Function) -> Iterator[str]:
    for name, definitions in sorted(item._fixtureinfo.name2fixturedefs.items()):
        function = definitions[-1].func
        if not is_installed(inspect.getmodule(function)):
            yield name
            yield from sources(function)


def _sha(value: Sequence[str]) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def session_demands(config: pytest.Config, settings: Settings) -> dict[str, str]:
    """Return the demands of a session that all of its experiments share."""
    hook = config.hook.pytest_crucible_session_demands
    values = {
        "alpha": repr(settings.alpha),
        "strict": "yes" if settings.strict else "no",
        "memory": settings.memory,
        "reasoning": settings.reasoning,
        "[scorers]": describe_table(config.rootpath, "scorers"),
        **{name: text for demands in hook(config=config, settings=settings) for name, text in demands.items()},
        **{f"plugin {name}": digest for name, digest in local_plugins(config)},
    }
    return {name: value for name, value in values.items() if value}


INSTALLED = ("site-packages", "dist-packages")


def conftest_files(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Yield the conftest.py files above an item, with their hashes: a hook or a patch in one may change every score."""
    for path, _ in _own_plugins(item.config):
        if path.name == "conftest.py" and path.parent in item.path.parents:
            yield f"file {_relative(path, item.config.rootpath)}", _file_digest(path)


def local_plugins(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """Yield the plugins of `-p`, PYTEST_PLUGINS and `pytest_plugins` that no package has installed, with their hashes."""
    for path, module in _own_plugins(config):
        if path.name != "conftest.py":
            yield module.__name__, _file_digest(path)


def _own_plugins(config: pytest.Config) -> list[tuple[Path, ModuleType]]:
    plugins = (plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, ModuleType))
    # pytest has a set of them.
    return sorted((Path(str(plugin.__file__)), plugin) for plugin in plugins if not is_installed(plugin))


def is_installed(module: ModuleType | None) -> bool:
    """Return whether a module is of an installed package, of Python or of ours."""
    file = getattr(module, "__file__", None)
    own = module is not None and module.__name__.partition(".")[0] in ("pytest_crucible", "_pytest", "pytest")
    return own or file is None or any(folder in Path(file).parts for folder in INSTALLED)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class SuiteCollector:
    """A pytest plugin that records what is collected, and what the suite itself leaves out."""

    __name__ = "crucible-suite"
    """Its name as a plugin: where there is one of this name, no session is opened."""

    def __init__(self) -> None:
        self._root = Path()
        self.record: SuiteRecord | None = None
        self.error = ""
        self._items: list[pytest.Item] = []
        self._left_out: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(
        self, collection_path: Path, config: pytest.Config
    ) -> Generator[None, bool | None, bool | None]:
        ignored = yield
        if ignored:
            for path in _experiment_files(collection_path, config):
                self._left_out[path] = "ignored by conftest.py or an option"
        return ignored

    def pytest_configure(self, config: pytest.Config) -> None:
        self._root = config.rootpath

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A file without experiments has no part in a gate, whatever it lacks.
        if report.passed or not _names_experiments(self._root / report.nodeid.partition("::")[0]):
            return
        if report.failed:
            self.error = self.error or f"{report.nodeid}: {_error_line(report.longreprtext)}"
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        self._left_out[report.nodeid] = f"skipped ({str(reason).removeprefix('Skipped: ')})"

    # Before a hook of the suite removes any.
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self._items.append(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        try:
            self.record = self._read(session)
        except CrucibleError as error:
            self.error = self.error or str(error)
        # Datasets and hooks are code of the suite, which may raise anything.
        except (Exception, SystemExit, OutcomeException) as error:
            self.error = self.error or f"{type(error).__name__}: {error}"

    def _read(self, session: pytest.Session) -> SuiteRecord:
        config = session.config
        # No session is opened, and features have demands of their own.
        register_hooks(config.pluginmanager)
        config.pluginmanager.register(builtin, "crucible-builtin")
        register_features(config.pluginmanager)
        settings = read_settings(config)
        data = SessionDatasets(config, settings.seed)
        functions = {
            item.nodeid: item.function
            for item in self._items
            if is_experiment(item) and isinstance(item, pytest.Function)
        }
        remaining = {id(item) for item in session.items}
        removed = {
            item.nodeid if item.nodeid in functions else function_nodeid(item): DESELECTED
            for item in self._items
            if id(item) not in remaining and (is_experiment(item) or uses_crucible(item)) and has_verdicts(item)
        }
        return record_suite(config, settings, session.items, functions, data, {**self._left_out, **removed})


def main(arguments: Sequence[str]) -> int:
    """Write the record of a suite, or the error of its collection, as JSON."""
    file, *words = arguments
    collector = SuiteCollector()
    status, last_line = run_pytest(words, collector)
    # Such as a file that does not exist. Files without experiments may fail to be imported, which ends pytest with another status.
    is_broken = collector.record is None or status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR)
    error = collector.error or (last_line if is_broken else "")
    Path(file).write_text(json.dumps({"error": error, "record": to_plain(collector.record)}), encoding="utf-8")
    return 0


def _experiment_files(path: Path, config: pytest.Config) -> Iterator[str]:
    """Yield the ignored files that may hold experiments; none of folders that pytest never looks into, such as `build`."""
    patterns = config.getini("norecursedirs")
    files = [path]
    if path.is_dir():
        is_usual = any(fnmatch(path.name, pattern) for pattern in patterns) or (path / "pyvenv.cfg").is_file()
        files = [] if is_usual else sorted(path.rglob("*.py"))
    for file in files:
        is_test = any(fnmatch(file.name, pattern) for pattern in config.getini("python_files"))
        if is_test and _names_experiments(file):
            yield file.relative_to(config.rootpath).as_posix() if file.is_relative_to(config.rootpath) else str(file)


def _names_experiments(file: Path) -> bool:
    """Return whether a file that was not imported seems to have experiments with verdicts: it names a marker that judges."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(marker in text for marker in JUDGING)


def _error_line(text: str) -> str:
    return next((line.removeprefix("E").strip() for line in reversed(text.splitlines()) if line.startswith("E ")), text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
