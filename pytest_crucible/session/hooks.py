"""The hooks of a pytest session with a sign of an experiment: registered by the plugin at the first one."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible import hookspecs, options
from pytest_crucible.session.markers import MARKERS
from pytest_crucible.signs import HOOKS, needs_session, takes_fixture

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession

# The controller draws the run's id and passes it to its workers.
_RUN = pytest.StashKey[str]()


def register_hooks(plugins: pytest.PytestPluginManager) -> None:
    """Register the hooks of this module, if they are not. Raises pytest.UsageError for invalid options."""
    if not plugins.hasplugin(HOOKS):
        plugins.register(sys.modules[__name__], HOOKS)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    options.add_keys(parser)
    config: Any = pluginmanager.get_plugin("pytestconfig")
    # After the arguments were read, none of them is an option of ours.
    if not config.args:
        options.add_flags(parser, pluginmanager)


def add_aliases(config: pytest.Config, parser: pytest.Parser, arguments: Sequence[str]) -> None:
    """Add an option's short name only after conftest files have added theirs, which it would clash with."""
    options.add_aliases(parser, None if config.known_args_namespace.help else arguments)


def describe_words(plugins: pytest.PytestPluginManager) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the lines of `pytest --markers`, and the help of the features' fixtures by name."""
    features = list(options.features_of(plugins))
    texts = {name: text for feature in features for name, text in feature.fixtures.items()}
    texts |= {name: text for feature in features for name, (text, _) in feature.test_fixtures.items()}
    return [*MARKERS, *(marker for feature in features for marker in feature.markers)], texts


def pytest_configure(config: pytest.Config) -> None:
    """Report invalid options here, where the message is the same with and without xdist."""
    options.check_options(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Start to redact before the first module is collected: its errors may show findings, too."""
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


def hide_names(config: pytest.Config, parametrised: Sequence[pytest.Item]) -> None:
    """Hide keys and findings in the names of parametrised tests: of all of them where an option redacts, else of ours."""
    items = parametrised if options.redacts_findings(config) else list(filter(needs_session, parametrised))
    if items:
        from pytest_crucible.session.redaction import hide_parameters

        hide_parameters(config, items)


def open_session_of(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Open the session if any of the collected items needs one."""
    # A gate only reads the suite.
    if config.pluginmanager.has_plugin("crucible-suite"):
        return
    if options.redacts_findings(config):
        from pytest_crucible.session.redaction import hide_parameters

        # Once more: a name of a later module may have shown what an earlier one holds.
        hide_parameters(config, items)
    if any(map(needs_session, items)):
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
