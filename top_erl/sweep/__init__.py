"""Sets of runs: which there are, who runs them, how far they are."""
