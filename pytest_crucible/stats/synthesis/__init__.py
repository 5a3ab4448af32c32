"""Many results into one: meta-analysis over suites, ratings from pairwise judgements."""
