"""Tinker in a pytest session: the service, on this machine or hosted, its clients as fixtures, and adapters that it answers for."""
