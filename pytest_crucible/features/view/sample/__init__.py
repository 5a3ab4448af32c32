"""The content of the page of one sample: its prompt, its replies side by side, and texts to compare."""
