"""Scores of replies: each metric's value, or the reason for a missing one."""
