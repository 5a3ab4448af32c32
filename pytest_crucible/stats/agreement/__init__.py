"""Agreement between raters, and means corrected for a judge's errors."""
