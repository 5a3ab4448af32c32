"""Values that take long to compute: once, and in a process of their own."""
