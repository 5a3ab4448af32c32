"""Contamination: samples that training rows match, and drift between two datasets."""
