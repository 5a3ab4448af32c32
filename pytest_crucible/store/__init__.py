"""Remembering: the run store, its background writer, and stored answers that stand in for new ones."""
