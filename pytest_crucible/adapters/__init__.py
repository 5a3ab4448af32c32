"""Adapters: the path from a name on the command line to an open model."""
