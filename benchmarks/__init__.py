"""What the plugin costs, measured: `python -m benchmarks` runs everything, `python -m benchmarks.engine` one of them."""
