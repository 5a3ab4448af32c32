"""Confidence sequences, e-values and group-sequential plans: statistics that stay valid under early looks."""
