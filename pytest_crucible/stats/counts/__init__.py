"""Counts, rates and ratios: events over time, latencies over latencies, one variable along another."""
