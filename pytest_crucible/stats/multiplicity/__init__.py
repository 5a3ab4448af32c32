"""Corrections for multiple comparisons, and gatekeeping procedures."""
