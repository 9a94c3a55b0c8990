"""A critic of one's own: it sees the last three states instead of one, and is a method by itself."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from top_erl.algorithms.registry import register_method
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.top_erl import TOP_ERL, TopErlRun
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.models import CriticEnsemble, TransformerCritic


class HistoryCritic(TransformerCritic):
    """Has one token for each of the last three states; the first state stands in for those before it."""

    def state_tokens(self, states: Tensor, times: Tensor) -> Tensor:
        history = [super(HistoryCritic, self).state_tokens(states, (times - back).clamp(min=0)) for back in (2, 1, 0)]
        return torch.cat(history, dim=2)


class HistoryLearner(TopErlLearner):
    def make_critics(self, state_dim: int, action_dim: int) -> CriticEnsemble:
        count, config = self.target.num_critics, self.config.critic
        return CriticEnsemble(HistoryCritic(config, state_dim, action_dim) for _ in range(count))


@dataclass(frozen=True)
class HistoryRun(TopErlRun):
    method: str = "history"  # type: ignore[assignment]


def build(config: HistoryRun, setup: Setup) -> HistoryLearner:
    return HistoryLearner(config.algorithm, setup)


register_method(replace(TOP_ERL, name="history", description="A critic of three states.", run=HistoryRun, build=build))
