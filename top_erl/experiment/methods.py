"""The learning methods by name."""

from __future__ import annotations

METHODS = {
    "top_erl": "TOP-ERL: off-policy episodic RL, a transformer critic over action segments (the paper's method).",
}
"""Every method with one line about it."""
