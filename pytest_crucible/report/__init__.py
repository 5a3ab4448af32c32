"""Telling: a finished run as terminal lines and as data. One run, and no number is formatted twice."""
