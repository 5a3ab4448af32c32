"""Reports of a finished run: terminal lines, documents and data.

Every format lays out the same cells, so no number is formatted twice.
"""
