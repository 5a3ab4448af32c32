"""The OpenAI-compatible backend: vLLM with LoRA adapters, llama.cpp, Ollama, hosted models, Tinker's endpoint."""
