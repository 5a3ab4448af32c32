"""All samples of an experiment in memory-bounded columns, which the server sorts, filters and searches."""
