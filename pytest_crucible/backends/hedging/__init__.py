"""Hedging: a second request if the first takes too long; the first answer counts."""
