"""Diversity of the members of an ensemble, and its value."""
