"""The critic's passes written out for a CPU: a backend of `models/transformer.py`, held to it by tests."""
