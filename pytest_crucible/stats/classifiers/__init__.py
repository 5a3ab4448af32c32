"""Statistics of detectors: curves, average precision, pooled rates over texts, and thresholds by benign scores."""
