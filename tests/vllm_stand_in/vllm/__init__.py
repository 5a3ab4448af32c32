"""A stand-in of vLLM with the part of its interface that `backend = "vllm"` uses, as of 0.9 to 0.11.

Replies are computed from prompts. Results are marked simulated, because no distribution of this name is installed.
"""

from vllm.sampling_params import SamplingParams

__all__ = ["SamplingParams"]
