"""Asking twice: a second request for what takes too long, and the first answer counts."""
