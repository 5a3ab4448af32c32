"""Explanations of numeric models: `from pytest_crucible import explain`."""
