"""The run store: its tables, its background writer, and readers for everything that was stored."""
