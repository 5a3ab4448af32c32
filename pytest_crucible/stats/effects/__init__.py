"""Sizes of effects, each with its interval."""
