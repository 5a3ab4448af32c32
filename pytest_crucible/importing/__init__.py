"""Reading what other harnesses have measured: a file to results, sample by sample. Nothing is stored and nothing is computed."""
