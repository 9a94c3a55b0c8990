"""A Stable-Baselines3 policy with memory, and the rollout buffer that cuts episodes into sequences for it.

A sequence is a segment of an episode, never across two episodes; it comes with the memory that was live at its first
step. Short sequences are padded for the network, and the padding is taken off again before anything is computed from
its output: a minibatch hands PPO the actions, advantages and log-probabilities of real steps only. Therefore SB3's loss
needs no mask, and every mean and every normalisation in it counts real steps alone.

Axes: `N` sequences or environments, `L` steps of a segment, `V` real steps in `N` sequences, `M` remembered steps,
`K` blocks, `E` width, `A` action entries.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.common.type_aliases import PyTorchObs, RolloutBufferSamples, Schedule
from torch import Tensor, nn

from top_erl.models.gtrxl import Context, GatedTransformer, GatedTransformerConfig, xavier

Array = NDArray[Any]
State = tuple[Array, ...]
"""A context as SB3's `predict` passes it around: inputs, age and phase."""


class Sequences(NamedTuple):
    """Some segments of episodes, as the network reads them."""

    observations: Tensor
    """Padded at the end, [N, L, ...]."""
    valid: Tensor
    """Which steps are real, [N, L]."""
    memory: Tensor
    """What the blocks were fed before each sequence, [N, K, M, E]."""
    visible: Tensor
    """How many of the remembered steps there were, [N]."""
    returns: Tensor
    """What the critic should have said at the real steps, [V]."""


class GtrxlPolicy(ActorCriticPolicy):  # type: ignore[misc]  # the package may be missing, and is Any then
    """Gaussian (or categorical) actor and critic, both linear on the output of one gated transformer."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        network: GatedTransformerConfig,
        error_clip: float = math.inf,
        **options: Any,
    ) -> None:
        """Build network, heads and optimiser; `options` are those of SB3's policy.

        Args:
            observation_space: What is observed.
            action_space: What can be done.
            lr_schedule: Learning rate by the share of the training that remains.
            network: Shape of the transformer.
            error_clip: A value whose squared error is larger passes no gradient.
            options: Those of SB3's policy.
        """
        self.network, self.error_clip = network, error_clip
        super().__init__(observation_space, action_space, lr_schedule, net_arch=[], ortho_init=False, **options)

    def _build_mlp_extractor(self) -> None:
        """Make the transformer; SB3's extractor after it has no layers."""
        self.transformer = GatedTransformer(self.network, self.features_dim)
        self.mlp_extractor = MlpExtractor(self.network.width, net_arch=[], activation_fn=nn.ReLU, device=self.device)

    def _build(self, lr_schedule: Schedule) -> None:
        """Make everything; both heads start with Xavier weights, like the transformer."""
        super()._build(lr_schedule)
        for head in (self.action_net, self.value_net):
            xavier(cast(nn.Linear, head))

    def empty_context(self, count: int) -> Context:
        """The context before the first step of `count` episodes."""
        return Context.empty(self.network, count, self.transformer.encoder.weight.detach())

    def act(
        self, obs: PyTorchObs, context: Context, deterministic: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, Context]:
        """Choose actions for one step of `N` episodes; actions, values, log-probabilities, and the context after."""
        output, after = self.transformer.step(self._features(obs), context)
        distribution = self._get_action_dist_from_latent(output)
        actions = distribution.get_actions(deterministic=deterministic)
        shaped = actions.reshape(-1, *cast(tuple[int, ...], self.action_space.shape))
        return shaped, self.value_net(output), distribution.log_prob(actions), after

    def evaluate_actions(self, obs: Sequences, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, [V, 1], log-probabilities, [V], and entropies, [V], of the real steps, with actions [V, A]."""
        features = self._features(obs.observations.flatten(0, 1)).unflatten(0, obs.valid.shape)  # [N, L, F]
        output = self.transformer(features, obs.memory, obs.visible)[0][obs.valid]  # [V, E]
        distribution = self._get_action_dist_from_latent(output)
        return (
            self._teachable(self.value_net(output), obs.returns),
            distribution.log_prob(actions),
            distribution.entropy(),
        )

    def _teachable(self, values: Tensor, returns: Tensor) -> Tensor:
        """Values, [V, 1], that pass a gradient only if their squared error is within the clip.

        SB3's squared error of them has the gradient of RLlib's, min(error², clip).
        """
        too_far = (values.detach() - returns.unsqueeze(-1)).square() > self.error_clip
        return torch.where(too_far, values.detach(), values)

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values and log-probabilities at the first step of episodes; `act` knows later ones."""
        return self.act(obs, self.empty_context(len(obs)), deterministic)[:3]

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """The distribution of actions at the first step of episodes."""
        output, _ = self.transformer.step(self._features(obs), self.empty_context(len(obs)))
        return self._get_action_dist_from_latent(output)

    def predict_values(self, obs: PyTorchObs, context: Context | None = None) -> Tensor:
        """Values, [N, 1], in a context, or at the first step of episodes."""
        output, _ = self.transformer.step(self._features(obs), context or self.empty_context(len(obs)))
        return self.value_net(output)

    def predict(
        self,
        observation: Array | dict[str, Array],
        state: State | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
    ) -> tuple[Array, State]:
        """Act for whoever plays: as in SB3, `state` is handed back in at the next step, None at the first."""
        self.set_training_mode(False)
        obs, vectorized = self.obs_to_tensor(observation)
        context = self.empty_context(len(obs)) if state is None else self._context_from(state)
        if episode_start is not None:
            context = context.restarted(torch.as_tensor(episode_start, dtype=torch.bool, device=self.device))
        with torch.no_grad():
            chosen, _, _, after = self.act(obs, context, deterministic)
        actions = chosen.cpu().numpy()
        if isinstance(self.action_space, spaces.Box):
            actions = np.clip(actions, self.action_space.low, self.action_space.high)
        state = tuple(tensor.cpu().numpy() for tensor in (after.inputs, after.age, after.phase))
        return (actions if vectorized else actions.squeeze(axis=0)), state

    def _context_from(self, state: State) -> Context:
        """Put a context together that `predict` took apart."""
        inputs, age, phase = (torch.as_tensor(array, device=self.device) for array in state)
        return Context(inputs, age, phase, self.network)

    def _features(self, obs: PyTorchObs) -> Tensor:
        """Observations as SB3 flattens and encodes them, [N, F]."""
        return cast(Tensor, self.extract_features(obs))


class SequenceBuffer(RolloutBuffer):  # type: ignore[misc]  # the package may be missing, and is Any then
    """SB3's rollout buffer that also keeps what the transformer was fed, and hands out sequences."""

    fed: Tensor
    """What the blocks were fed: the memory before the rollout, then each of its steps, [M + steps, N, K, E]."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        network: GatedTransformerConfig,
        **options: Any,
    ) -> None:
        """Make room for `buffer_size` steps of every environment."""
        self.network = network
        super().__init__(buffer_size, observation_space, action_space, **options)

    def reset(self) -> None:
        """Forget the last rollout."""
        super().reset()
        shape = (self.buffer_size, self.n_envs)
        self.visible = torch.zeros(shape, dtype=torch.long, device=self.device)
        self.starts_sequence = np.zeros(shape, dtype=bool)
        rows = self.network.memory_length + self.buffer_size
        self.fed = torch.zeros(rows, self.n_envs, self.network.layers, self.network.width, device=self.device)

    def begin(self, context: Context) -> None:
        """Start a rollout with what is remembered from before it."""
        self.fed[: self.network.memory_length] = context.memory.permute(2, 0, 1, 3)

    def remember(self, before: Context, after: Context) -> None:
        """Keep the contexts around the step that is added next."""
        self.visible[self.pos] = before.visible
        self.starts_sequence[self.pos] = (before.phase == 0).cpu().numpy()
        self.fed[self.network.memory_length + self.pos] = after.inputs[:, :, -1]

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """All sequences once, shuffled, in minibatches of about `batch_size` steps."""
        assert self.full, "a rollout must be complete before it is learned from"
        env, first, length = self.sequences()
        each = len(env) if batch_size is None else max(1, round(batch_size / self.network.sequence_length))
        for chosen in torch.randperm(len(env)).split(each):
            rows = chosen.numpy()
            yield self._minibatch(env[rows], first[rows], length[rows])

    def sequences(self) -> tuple[Array, Array, Array]:
        """Environment, first step and length of every sequence."""
        env, first = np.nonzero(self.starts_sequence.T)
        same_env = np.append(env[1:] == env[:-1], False)
        end = np.where(same_env, np.append(first[1:], 0), self.buffer_size)
        return env, first, end - first

    def _minibatch(self, env: Array, first: Array, length: Array) -> RolloutBufferSamples:
        """Sequences, padded, and everything else of their real steps, in the same order."""
        offset = np.arange(self.network.sequence_length)
        valid = offset < length[:, None]  # [N, L]
        step = np.minimum(first[:, None] + offset, self.buffer_size - 1)
        remembered = first[:, None] + np.arange(self.network.memory_length)  # rows of `fed`, [N, M]
        at = (step[valid], np.broadcast_to(env[:, None], valid.shape)[valid])  # [V] each
        returns = self.to_torch(self.returns[at])
        sequences = Sequences(
            observations=self.to_torch(self.observations[step, env[:, None]]),
            valid=self.to_torch(valid),
            memory=self.fed[remembered, env[:, None]].transpose(1, 2),
            visible=self.visible[first, env],
            returns=returns,
        )
        actions = self.actions[at].astype(np.float32, copy=False)
        rest = map(self.to_torch, (actions, self.values[at], self.log_probs[at], self.advantages[at]))
        return RolloutBufferSamples(sequences, *rest, returns)
