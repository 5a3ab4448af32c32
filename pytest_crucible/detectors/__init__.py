"""Detectors of personal data and of secrets: from a text to spans. Guards, redaction and data checks use them."""
