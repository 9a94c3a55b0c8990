"""A target of one's own: the mean of the state's value and of a new sequence's, as a bootstrap."""

import torch
from torch import Tensor

from top_erl.algorithms.top_erl.segments import Segments, every_state
from top_erl.algorithms.top_erl.targets import Future, VTarget, n_step_returns, register_target
from top_erl.rollout.replay import EpisodeBatch


class MixedTarget(VTarget):
    """Bootstraps with (V(s) + Q(s, new actions)) / 2."""

    def __call__(self, batch: EpisodeBatch, segments: Segments, future: Future) -> Tensor:
        states = every_state(batch.horizon, segments.length, segments.device)
        fresh = future.sequences(states, future.sample(states))
        sequence, state = future.critics.target_values(fresh, states.starts)  # [1, B, T] each
        bootstrap = 0.5 * (self.combine(sequence) + self.combine(state))
        returns = n_step_returns(batch.reward, bootstrap, segments, future.discount)
        own = future.critics.last_value(future.sequences(segments, future.params))
        return torch.cat((self.combine(own).unsqueeze(-1), returns), dim=-1)


register_target("mixed", lambda ensemble_size: MixedTarget())
