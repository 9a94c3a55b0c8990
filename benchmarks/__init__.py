"""Speed benchmarks: `python -m benchmarks`."""
