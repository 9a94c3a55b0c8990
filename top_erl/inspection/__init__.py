"""Figures of what a trained policy does; they need a checkpoint, and matplotlib (the extra `report`)."""
