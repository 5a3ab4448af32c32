"""Attacks on prompts, for defence: small edits that a reader would overlook, and frames that ask for a harmless code word."""
