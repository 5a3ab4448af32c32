"""Writes results as tables, and in the formats of other harnesses and trackers. Nothing is computed here."""
