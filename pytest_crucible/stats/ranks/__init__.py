"""What depends only on order: rank tests, dominance, quantiles."""
