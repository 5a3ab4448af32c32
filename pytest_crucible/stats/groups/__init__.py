"""More than two arms, and what is said about their shapes: omnibus tests, post-hoc comparisons, variances."""
