"""Noise beyond the samples: means over crossed random factors such as prompts, trainings and rounds."""
