"""Global random generators, which Stable-Baselines3 draws from, held in check."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def globally_seeded(seed: int) -> Iterator[None]:
    """Seed the generators of Python, NumPy and torch inside the block and restore them afterwards."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            random.seed(seed)
            np.random.seed(seed % (1 << 32))
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
