"""The model registry: versions of models, and the proof on which they reach production."""
