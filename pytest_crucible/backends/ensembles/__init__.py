"""Ensembles: several adapters that answer as one, and how they are queried, normalised and counted."""
