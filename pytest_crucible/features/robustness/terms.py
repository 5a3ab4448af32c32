"""Terms that only robustness knows, by which a session sees that a test has attacks."""

CERTIFIED, SMOOTHED = "certified_edits", "smoothed"
"""The metric of certificates, and the variant that has it: the model on texts with words left out."""
ALIASES = {CERTIFIED: f"{CERTIFIED}[{SMOOTHED}]"}
"""Terms of a metric that only one variant has, which therefore needs no brackets."""
