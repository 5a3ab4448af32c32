"""The reply cache: keys, policy, and the wrapper that reads and writes it."""
