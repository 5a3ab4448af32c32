"""An unfinished run as the store has it so far, and its changes as a stream of events."""
