"""What the page of one sample shows: its prompt, its replies side by side, and texts that are compared."""
