"""The cookbook has no hooks: a marker is given its evaluators as metrics."""
