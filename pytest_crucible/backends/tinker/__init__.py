"""Tinker in a pytest session: the local or hosted service, fixtures for its clients, and the adapters that it serves."""
