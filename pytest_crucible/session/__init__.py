"""The pytest integration: collect experiments, run them and publish their verdicts."""
