"""Two compared runs: what differs in their making, and the samples that changed."""
