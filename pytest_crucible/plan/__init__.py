"""The plan of an experiment: grammar, targets, arms and sample sizes, settled before the first request."""
