"""Tables and figures of README, docs and results, made from raw files: `python -m results.make` or `make results`."""
