"""Standardised network inputs: subtract a mean, divide by a spread, both fixed once from data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_SMALLEST_SPREAD = 0.01
"""Entries that vary less than this are not blown up."""
LIMIT = 10.0
"""Standardised entries are kept within this many spreads."""


class Standardizer(nn.Module):
    """Identity until `fit` is called; the statistics are saved with the network."""

    def __init__(self, size: int) -> None:
        """Make a standardizer for inputs [..., size]."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("spread", torch.ones(size))
        self.register_buffer("fitted", torch.tensor(False))
        self.mean: Tensor
        self.spread: Tensor
        self.fitted: Tensor
        self._active = False

    @torch.no_grad()
    def fit(self, data: Tensor) -> None:
        """Take mean and standard deviation of data, [..., size], over all leading axes."""
        rows = data.reshape(-1, data.shape[-1])
        self.mean.copy_(rows.mean(0))
        self.spread.copy_(rows.std(0).clamp_min(_SMALLEST_SPREAD))
        self.fitted.fill_(True)
        self._active = True

    def forward(self, data: Tensor) -> Tensor:
        """Standardise, [..., size]."""
        if not self._active:
            return data
        return ((data - self.mean) / self.spread).clamp(-LIMIT, LIMIT)

    def _load_from_state_dict(self, *args: object, **keywords: object) -> None:
        """Remember whether the loaded statistics were fitted, so that `forward` need not look at the device."""
        super()._load_from_state_dict(*args, **keywords)
        self._active = bool(self.fitted)
