"""How many samples a question needs, and what a number of samples can detect."""
