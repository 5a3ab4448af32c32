"""Several adapters that answer as one: how they are asked, how their answers are read, and how they vote."""
