"""Files that tinker-cookbook's recipes need on a machine without a network, and those that they write."""
