"""The plans of episodes: where each started, with which parameters, drawn from what.

Axes: `N` plans of all episodes, `B` episodes, `T` tokens, `P` primitive parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from top_erl.trust_region.gaussian import Gaussian


@dataclass(frozen=True)
class Plans:
    """All plans of a batch of episodes, in the order in which they were made."""

    episode: NDArray[np.int64]
    """Row of the episode in the batch, [N]."""
    start: NDArray[np.int64]
    """Control steps made before the plan, [N]."""
    params: Tensor
    """Parameters of the primitive, [N, P]."""
    behaviour: Gaussian
    """What they were drawn from, [N, P]."""

    def of(self, episodes: Sequence[int]) -> Plans:
        """The plans of some of the episodes, which are counted anew."""
        place = {row: new for new, row in enumerate(episodes)}
        kept = [index for index, row in enumerate(self.episode.tolist()) if row in place]
        rows = np.array([place[self.episode[index]] for index in kept], dtype=np.int64)
        return Plans(rows, self.start[kept], self.params[kept], self.behaviour.rows(kept))

    def by_token(self, episodes: int, tokens: int, stride: int) -> Tensor:
        """[1, parameters, mean] at the tokens where plans start, else zeros, [B, T, 1 + 2P]."""
        rows = torch.cat((torch.ones(len(self.params), 1), self.params.cpu(), self.behaviour.mean.cpu()), dim=-1)
        table = torch.zeros(episodes, tokens, rows.shape[1])
        table[torch.from_numpy(self.episode), torch.from_numpy(self.start // stride)] = rows.float()
        return table

    @staticmethod
    def joined(parts: Sequence[Plans]) -> Plans:
        """Plans that were made at several instants by one policy."""
        first = parts[0].behaviour
        mean = torch.cat([part.behaviour.mean for part in parts])
        factor = first.factor if first.shared else torch.cat([part.behaviour.factor for part in parts])
        return Plans(
            np.concatenate([part.episode for part in parts]),
            np.concatenate([part.start for part in parts]),
            torch.cat([part.params for part in parts]),
            Gaussian(mean, factor, first.diagonal),
        )
