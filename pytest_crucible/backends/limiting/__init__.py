"""Rate limiting: one limiter per server, shared by all adapters that query it. It learns the server's limits."""
