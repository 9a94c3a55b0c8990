"""Bad luck and bad intent, tried on purpose: `python -m faults`."""
