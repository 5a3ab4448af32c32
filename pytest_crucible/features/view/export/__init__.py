"""One run's pages as files for a static server."""
