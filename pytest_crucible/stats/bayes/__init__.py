"""Posterior answers: for reading, never for gates."""
