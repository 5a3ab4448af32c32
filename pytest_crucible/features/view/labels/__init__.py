"""The labels page: which replies come first, and the file that it writes."""
