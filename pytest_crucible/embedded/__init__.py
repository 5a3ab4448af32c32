"""A small language model inside the package: it trains LoRA adapters and samples on the CPU, with numpy alone."""
