"""What a test can ask for. Inside an experiment `sample`, `sampler` and `score` are bound anew for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_crucible.joining import Crucible


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> None:
    """The sample that is asked: id, input, expected, group, metadata. In functions marked `crucible`."""
    _inside_only(request, "sample")


@pytest.fixture
def sampler(request: pytest.FixtureRequest) -> None:
    """Asks the arm: `await sampler.generate(sample.input)`, without await in a plain `def`. In functions marked `crucible`."""
    _inside_only(request, "sampler")


@pytest.fixture
def score(request: pytest.FixtureRequest) -> None:
    """Scores what no metric can: `score(steps=3, solved=True)`. In functions marked `crucible`."""
    _inside_only(request, "score")


@pytest.fixture
def crucible(request: pytest.FixtureRequest) -> Crucible:
    """Makes each item of an ordinary parametrised test a sample: `crucible.score(accuracy=...)`, `crucible.sampler`."""
    from pytest_crucible.session import SESSION

    session = request.config.stash[SESSION]
    return session.crucible(request.node)


def _inside_only(request: pytest.FixtureRequest, name: str) -> None:
    """Experiments replace the value; anywhere else asking for it is a mistake."""
    if request.node.get_closest_marker("crucible") is None:
        pytest.fail(
            f"fixture {name!r} belongs to experiments: mark the function with @pytest.mark.crucible(dataset=...), "
            "or use the `crucible` fixture in an ordinary test",
            pytrace=False,
        )
