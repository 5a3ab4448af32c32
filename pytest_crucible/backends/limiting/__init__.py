"""How much may be asked of a server at a time: one limiter for all who ask it, which learns what the server bears."""
