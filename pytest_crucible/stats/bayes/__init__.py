"""Posterior distributions: for interpretation, never for gates."""
