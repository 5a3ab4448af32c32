"""Sweeps: families of adapters, the halves of the samples, and which members go on. Pure functions."""
