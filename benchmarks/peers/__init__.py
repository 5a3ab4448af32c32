"""The same evaluation run by other tools, each in an environment of its own."""
