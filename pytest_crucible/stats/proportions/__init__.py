"""Proportions: of one arm, two arms, pairs and contingency tables."""
