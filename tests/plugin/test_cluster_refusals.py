"""A session on a cluster that cannot be used, or with a node whose suite differs, ends with exit status 4 before a request."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_runs import ENVIRONMENT, ClusterRun, serve
from clusters import skip_without_clusters, start_cluster

pytestmark = pytest.mark.slow
CONFTEST = """
    import pytest_crucible

    @pytest_crucible.metric
    def accuracy(sample, reply):
        return reply.text == sample.expected
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterRun]:
    """A suite on two machines, of which the second has a copy of it."""
    skip_without_clusters()
    folder, copy = tmp_path_factory.mktemp("suite"), tmp_path_factory.mktemp("copy")
    with start_cluster(2, environment=ENVIRONMENT, covers={folder: copy}) as cluster, serve(cluster):
        run = ClusterRun(cluster, folder, 100)
        run.write_suite()
        yield run


def refuse(run: ClusterRun, *arguments: str) -> str:
    """Return the output of a session that has to be refused."""
    driver = run.start_driver(*arguments)
    output = driver.communicate(timeout=200)[0]
    assert driver.returncode == 4, output
    assert "Traceback" not in output
    assert run.count_requests() == 0
    return output


def copy_of(run: ClusterRun) -> Path:
    """Return the folder that the second machine has for that of the suite, with the same files."""
    (copy,) = run.cluster.covers.values()
    for path in run.folder.iterdir():
        if path.is_file() and not path.name.startswith("run.db"):
            shutil.copy(path, copy)
    return copy


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("sums.jsonl", '"1"', '"2"', "dataset 'sums.jsonl' on 10.77.0.2 differs from the driver's: copy it there"),
        (
            "test_sums.py",
            "return await",
            "assert sample.id; return await",
            "the test function of test_sums.py::test_sums on 10.77.0.2 differs from the driver's: install the same commit there",
        ),
        (
            "crucible.toml",
            '"m"',
            '"n"',
            "adapter 'v2' on 10.77.0.2 differs from the driver's: configure it alike there",
        ),
        ("sums.jsonl", "", "", "10.77.0.2 has no sums.jsonl: copy it there"),
    ],
)
def test_a_node_with_an_edited_suite_is_refused_by_the_part_that_differs(run, name, old, new, sentence):
    path = copy_of(run) / name
    path.write_text(path.read_text().replace(old, new)) if old else path.unlink()

    assert sentence in refuse(run)


def test_a_node_with_another_metric_is_refused(run):
    copy = copy_of(run)
    for folder, code in ((run.folder, CONFTEST), (copy, CONFTEST.replace("==", "!="))):
        (folder / "metrics_of_suite.py").write_text(textwrap.dedent(code))
    test = (run.folder / "test_sums.py").read_text()
    for folder in (run.folder, copy):
        (folder / "test_sums.py").write_text(
            "from metrics_of_suite import accuracy\n"
            + test.replace('"exact_match"]', "accuracy]").replace("exact_match", "accuracy")
        )
    try:
        sentence = "metric 'accuracy' on 10.77.0.2 differs from the driver's: install the same commit there"
        assert sentence in refuse(run)
    finally:
        (run.folder / "test_sums.py").write_text(test)


def test_a_cluster_without_a_token_is_refused(tmp_path):
    skip_without_clusters()
    with start_cluster(1, has_token=False, environment=ENVIRONMENT) as cluster, serve(cluster):
        run = ClusterRun(cluster, tmp_path, 10)
        run.write_suite()

        assert "Ray at auto requires no token: start it with RAY_AUTH_MODE=token" in refuse(run)
        # A driver that has a token is served there, too.
        guarded = replace(run, cluster=replace(cluster, token="0" * 64))
        assert "Ray at auto requires no token: start it with RAY_AUTH_MODE=token" in refuse(guarded)


def test_a_driver_with_another_token_is_refused(run):
    other = replace(run, cluster=replace(run.cluster, token="0" * 64))

    assert "Ray at auto cannot be used (" in refuse(other)


def test_a_driver_with_another_version_of_ray_is_refused(run):
    (run.folder / "other_ray.py").write_text("import ray\nray.__version__ = '9.9.9'\n")

    output = refuse(run, "-p", "other_ray")

    assert "Version mismatch" in output
    assert "install the same versions of Ray and Python here and there" in output


def test_a_driver_without_ray_is_refused(suite, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)

    result = suite.run("--crucible-adapter=v2", "--crucible-executor=ray")

    suite.refuses(result, '--crucible-executor needs Ray: install it with pip install "pytest-crucible[[]ray]"')
