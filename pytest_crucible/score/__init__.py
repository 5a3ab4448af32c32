"""What replies are worth: each metric's value, or the reason why there is none."""
