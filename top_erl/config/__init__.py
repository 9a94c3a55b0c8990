"""The configuration of a run as plain data: everything needed to repeat it."""
