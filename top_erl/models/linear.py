"""A linear layer of which some outputs can be asked for alone."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as fn


class Linear(nn.Linear):
    """`nn.Linear` with a bias, and with `rows`."""

    def rows(self, data: Tensor, outputs: slice) -> Tensor:
        """Some of the layer's outputs, [..., in] to [..., len(outputs)], without computing the others."""
        return fn.linear(data, self.weight[outputs], self.bias[outputs])
