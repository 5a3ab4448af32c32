"""The statistics that targets and comparisons may use: one row of `table` each, with their product terms."""
