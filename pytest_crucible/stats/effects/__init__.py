"""Effect sizes with their intervals."""
