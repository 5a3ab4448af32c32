"""Statistics that targets and comparisons may use: one module and one row of `table` each."""
