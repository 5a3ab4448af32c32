"""The front door: the hooks that run in every pytest session. It imports nothing heavy and opens a session when one is needed."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible import builtin, hookspecs, options
from pytest_crucible.fixtures import (
    crucible,
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
from pytest_crucible.markers import MARKERS, is_experiment, is_judged

if TYPE_CHECKING:
    from pytest_crucible.session import CrucibleSession

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

_RUN = pytest.StashKey[str]()
# The controller names the run; its workers learn the name.


def pytest_addoption(parser: pytest.Parser) -> None:
    options.declare(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, object, object]:
    """Offer the short name of an option only when conftests have had their say: theirs would clash with it."""
    result = yield
    options.declare_aliases(parser)
    return result


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(builtin, "crucible-builtin")
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    options.read(config)  # a mistake is told here, where it reads the same plain and under xdist


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that joins and compares runs once an arm. Last of all, so that arms vary fastest: a slow hour hits all of them."""
    if "crucible" not in metafunc.fixturenames or not any(metafunc.definition.iter_markers("ab_compare")):
        return
    settings = options.read(metafunc.config)
    if settings.adapter is not None and settings.compare:
        names = [settings.adapter, *settings.compare]
        metafunc.parametrize("crucible", names, ids=names, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Open the session if anything here is ours, before -k, -m and --lf take items away."""
    if any(is_experiment(item) or is_judged(item) or "crucible" in getattr(item, "fixturenames", ()) for item in items):
        from pytest_crucible.sample.garbage import collecting_seldom

        with collecting_seldom():  # modules are no garbage: looking for some is a tenth of what importing takes
            from pytest_crucible.session import open_session

        open_session(config).see(items)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: every worker writes to the same run."""
    node.workerinput["crucible_run"] = _run_id(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """xdist: what a worker could not store when it was about to end."""
    opened = _opened(node.config)
    if opened is not None:
        opened.hear(getattr(node, "workeroutput", {}).get("crucible_failures", ()))


def pytest_runtest_logreport(report: Any) -> None:
    """xdist: the first report of ours opens the controller's session."""
    message = getattr(report, "crucible", None)
    if message is not None and hasattr(report, "node"):
        from pytest_crucible.session import open_session

        open_session(report.node.config, message["run"]).receive(message)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Judge when all tests have run; on Ctrl-C and -x, judge what there is."""
    try:
        result = yield
    except BaseException:
        _conclude(session, interrupted=True)
        raise
    _conclude(session, interrupted=False)
    return result


def _conclude(session: pytest.Session, *, interrupted: bool) -> None:
    opened = _opened(session.config)
    if opened is not None:
        opened.conclude(session, interrupted=interrupted)


def _opened(config: pytest.Config) -> CrucibleSession | None:
    plugin: CrucibleSession | None = config.pluginmanager.get_plugin("crucible-session")
    return plugin


def _run_id(config: pytest.Config) -> str:
    if _RUN not in config.stash:
        import secrets

        config.stash[_RUN] = secrets.token_hex(6)
    return config.stash[_RUN]
