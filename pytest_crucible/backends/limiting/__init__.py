"""Rate limiting: one limiter per server, shared by everything that queries it, which learns what the server allows."""
