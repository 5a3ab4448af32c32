"""Stored runs, without pytest: evaluate, load, compare, import, reproduce, export."""
