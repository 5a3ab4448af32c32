"""Proportions of one arm, of two, of pairs and of tables."""
