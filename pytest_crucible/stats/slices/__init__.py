"""Statistics of slices: the largest gap, the smallest ratio and the worst mean, their changes, and a search over slices."""
