"""Reads result files of other harnesses, sample by sample. Nothing is stored or computed here."""
