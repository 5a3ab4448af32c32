"""Any server that speaks OpenAI's form, as a backend: vLLM with LoRA adapters, llama.cpp, Ollama, hosted ones, Tinker's own."""
