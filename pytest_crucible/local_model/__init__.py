"""A small language model inside the package: trains LoRA adapters and samples on the CPU, with numpy alone."""
