"""The analysis stage: from stored replies to estimates, target results and comparisons. `gate` decides on them."""
