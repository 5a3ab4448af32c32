"""An empty run store."""

from experiment_builders import store  # noqa: F401 - a fixture
