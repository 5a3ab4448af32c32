"""The package of this name in vLLM."""
