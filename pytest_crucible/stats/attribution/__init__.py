"""Attribution of a score to the segments of a prompt: Shapley values, joint intervals, interactions and a deletion curve."""
