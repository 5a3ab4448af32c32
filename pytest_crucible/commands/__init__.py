"""The commands of the `crucible` program: each is a module of its own name, whose `command` is what click runs."""
