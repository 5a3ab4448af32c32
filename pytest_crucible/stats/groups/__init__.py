"""More than two arms: omnibus tests, post-hoc comparisons, variances and shapes."""
