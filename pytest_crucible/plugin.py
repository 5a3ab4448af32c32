"""The pytest plugin: hooks that run in every pytest session. It imports nothing heavy, and opens a session when it is needed."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible import _OrdinaryFinder, hookspecs, options
from pytest_crucible.features import register_features
from pytest_crucible.fixtures import (
    crucible,
    feature_fixtures,
    local_tinker,
    rest_client,
    sample,
    sampler,
    sampling_client,
    score,
    service_client,
    tokenizer,
    training_client,
)
from pytest_crucible.session.markers import MARKERS, is_experiment, is_judged, takes_fixture

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession

__all__ = [
    "crucible",
    "local_tinker",
    "rest_client",
    "sample",
    "sampler",
    "sampling_client",
    "score",
    "service_client",
    "tokenizer",
    "training_client",
]

# The controller draws the run's id and passes it to its workers.
_RUN = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    options.add_options(parser, pluginmanager)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Add an option's short name only after conftest files have added theirs, which it would clash with."""
    result = yield
    options.add_aliases(parser, None if early_config.known_args_namespace.help else args)
    return result


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(feature_fixtures(options.features_of(config.pluginmanager)), "crucible-fixtures")
    further = (marker for feature in options.features_of(config.pluginmanager) for marker in feature.markers)
    for marker in (*MARKERS, *further):
        config.addinivalue_line("markers", marker)
    # A verdict's name from the summary, pasted as an argument, names its experiment.
    if any("::" in argument and any(sign in argument for sign in " @(") for argument in config.args):
        from pytest_crucible.session.markers import resolve_argument

        config.args[:] = dict.fromkeys(map(resolve_argument, config.args))
    # Reports invalid options here, where the message is the same with and without xdist.
    options.check_options(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Start to redact before the first module is collected: its errors may show findings, too."""
    # Before xdist starts workers: what features pass to them is added as each is configured.
    if session.config.pluginmanager.hasplugin("dsession"):
        register_features(session.config.pluginmanager)
    if options.redacts_findings(session.config):
        from pytest_crucible.session.redaction import key_redactor

        key_redactor(session.config)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise a joined test that compares by its arms. Last, so that arms vary fastest: a slow hour affects all of them."""
    if not takes_fixture(metafunc.definition, "crucible") or not any(metafunc.definition.iter_markers("ab_compare")):
        return
    from pytest_crucible.session.settings import read_settings

    settings = read_settings(metafunc.config)
    if settings.adapter is not None and settings.compare:
        names = [settings.adapter, *settings.compare]
        metafunc.parametrize("crucible", names, ids=names, indirect=True)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Hide keys and findings in names of parametrised tests, before --lf and the command line look for names."""
    report = yield
    named = [node for node in report.result or () if isinstance(node, pytest.Item) and hasattr(node, "callspec")]
    if named and not options.redacts_findings(collector.config):
        named = [node for node in named if is_experiment(node) or takes_fixture(node, "crucible")]
    if named:
        from pytest_crucible.session.redaction import hide_parameters

        hide_parameters(collector.config, named)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Open the session if any item is an experiment or a joined test, before -k, -m and --lf remove items."""
    # A gate only reads the suite.
    if config.pluginmanager.has_plugin("crucible-suite"):
        return
    if options.redacts_findings(config):
        from pytest_crucible.session.redaction import hide_parameters

        # Once more: a name of a later module may have shown what an earlier one holds.
        hide_parameters(config, items)
    if any(is_experiment(item) or is_judged(item) or takes_fixture(item, "crucible") for item in items):
        from pytest_crucible.sample.garbage import setting_imports_aside

        # Garbage collection takes a tenth of the time of imports, and finds nothing.
        with setting_imports_aside() as are_aside:
            from pytest_crucible.session.session import open_session

        open_session(config, objects_are_aside=are_aside).collection.marked.remember(items)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under xdist: pass the run's id to a worker, so that all workers write to one run."""
    from pytest_crucible.session.settings import draft_settings
    from pytest_crucible.session.workers import WorkerLink

    node.workerinput["crucible_run"] = _run_id(node.config)
    node.workerinput["crucible_settings"] = draft_settings(node.config).facts
    node.crucible = WorkerLink(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Under xdist: open the controller's session when the first worker has announced experiments."""
    if node.crucible.announced is not None:
        from pytest_crucible.session.session import open_session

        open_session(node.config, node.crucible.announced["run"]).workers.add_worker(node.crucible)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Under xdist: collect a worker's last errors."""
    opened = _current_session(node.config)
    if opened is not None:
        opened.messages.add_failures(getattr(node, "workeroutput", {}).get("crucible_failures", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: Any) -> None:
    """Under xdist: take the message of a worker's session from its report."""
    # Only a report that xdist received has a node.
    opened = _current_session(report.node.config) if hasattr(report, "node") else None
    if opened is not None:
        # Before pytest shows the progress.
        opened.expect_verdicts(report.node.config.pluginmanager.get_plugin("session"))
        if hasattr(report, "crucible"):
            opened.workers.receive(report)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Decide the verdicts when all tests have run; after Ctrl-C and -x, from the replies until then."""
    opened = _current_session(session.config)
    if opened is not None:
        opened.expect_verdicts(session)
    try:
        result = yield
    except BaseException:
        _conclude(session, interrupted=True)
        raise
    _conclude(session, interrupted=False)
    return result


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Leave the import system as it was before the session; a later session in this process needs no finder any more."""
    _OrdinaryFinder.uninstall()


def _conclude(session: pytest.Session, *, interrupted: bool) -> None:
    opened = _current_session(session.config)
    if opened is not None:
        opened.conclusion.conclude(session, interrupted=interrupted)


def _current_session(config: pytest.Config) -> CrucibleSession | None:
    plugin: CrucibleSession | None = config.pluginmanager.get_plugin("crucible-session")
    return plugin


def _run_id(config: pytest.Config) -> str:
    if _RUN not in config.stash:
        import secrets

        config.stash[_RUN] = secrets.token_hex(6)
    return config.stash[_RUN]
