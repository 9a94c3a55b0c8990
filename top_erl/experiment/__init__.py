"""Putting things together: configuration, presets, the training run, checkpoints, logging."""
