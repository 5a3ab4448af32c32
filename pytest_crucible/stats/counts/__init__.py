"""Rates of events, ratios of positive values, and linear correlations."""
