"""A small language model inside the package: trains LoRA adapters and samples on the CPU, with numpy alone."""

BASE_MODEL = "crucible/tiny"
"""The model's short name. On a Tinker server its long name is a directory from which transformers loads its tokenizer."""
