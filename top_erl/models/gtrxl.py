"""GTrXL: a transformer with gates and memory that reinforcement learning can train (Parisotto et al., 2020).

An episode is read in segments. A token sees the earlier tokens of its own segment, and the memory: what each block was
fed in the steps before the segment. No gradient enters the memory. As every block sees the memory of its own input, the
sight of the whole network grows with its depth. Positions are distances (Transformer-XL), so the network does not know
when in the episode it is. A gate takes the place of each residual sum and starts close to the identity.

Axes: `N` sequences, `T` new tokens, `C` remembered ones, `F` features of a step, `E` width, `K` blocks, `H` heads,
`d` their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.errors import UserError


@dataclass(frozen=True)
class GatedTransformerConfig:
    """Shape of the network."""

    width: int = 64
    """Width of a token."""
    heads: int = 4
    """Attention heads."""
    head_width: int = 16
    """Width of a head."""
    layers: int = 4
    """Transformer blocks."""
    mlp_width: int = 32
    """Hidden units of the MLP in each block."""
    sequence_length: int = 5
    """Steps of a segment: how far gradients reach back."""
    memory_length: int = 5
    """Steps before the segment that each block remembers."""
    gate_bias: float = 2.0
    """How close to the identity the gates start."""

    def __post_init__(self) -> None:
        """Check the values."""
        sizes = (self.width, self.heads, self.head_width, self.layers, self.mlp_width, self.sequence_length)
        if min(sizes) < 1 or self.memory_length < 0:
            raise UserError("network sizes and sequence_length must be at least 1, memory_length at least 0.")
        if self.context_length < 1:
            raise UserError("network.memory_length must be at least 1 if network.sequence_length is 1.")
        if self.width % 2:
            raise UserError(f"network.width ({self.width}) must be even: positions are pairs of sine and cosine.")

    @property
    def context_length(self) -> int:
        """Steps that the last step of a segment sees before itself."""
        return self.memory_length + self.sequence_length - 1


@dataclass(frozen=True)
class Context:
    """What the network has read, for `N` episodes that are played step by step."""

    inputs: Tensor
    """What each block was fed in the last steps, the newest at the end, [N, K, C, E]."""
    age: Tensor
    """Steps of the episode so far, [N]."""
    phase: Tensor
    """Steps of the segment so far, [N]."""
    config: GatedTransformerConfig
    """Shape of the network that reads."""

    @classmethod
    def empty(cls, config: GatedTransformerConfig, count: int, like: Tensor) -> Context:
        """Before the first step of `count` episodes, with the type and device of `like`."""
        zero = torch.zeros(count, dtype=torch.long, device=like.device)
        inputs = like.new_zeros(count, config.layers, config.context_length, config.width)
        return cls(inputs, zero, zero, config)

    @property
    def visible(self) -> Tensor:
        """How many of the newest inputs the next step may see: memory and its own segment, [N]."""
        return torch.minimum(self.age, self.config.memory_length + self.phase)

    @property
    def memory(self) -> Tensor:
        """What is remembered if a segment starts now, [N, K, memory_length, E]."""
        return self.inputs[:, :, self.config.sequence_length - 1 :]

    def restarted(self, where: Tensor) -> Context:
        """Forget the episodes `where` a new one starts, [N]."""
        keep = (~where).long()
        inputs = self.inputs.masked_fill(where[:, None, None, None], 0.0)
        return replace(self, inputs=inputs, age=self.age * keep, phase=self.phase * keep)

    def of(self, index: Sequence[int]) -> Context:
        """The context of some of the episodes."""
        rows = list(index)
        return replace(self, inputs=self.inputs[rows], age=self.age[rows], phase=self.phase[rows])

    def cut(self) -> Context:
        """Start a new segment at the next step of every episode."""
        return replace(self, phase=torch.zeros_like(self.phase))

    def after(self, new: Tensor) -> Context:
        """The context after a step in which the blocks were fed `new`, [N, K, 1, E]."""
        inputs = torch.cat((self.inputs, new), dim=2)[:, :, 1:]
        phase = (self.phase + 1) % self.config.sequence_length
        return replace(self, inputs=inputs, age=self.age + 1, phase=phase)


class GruGate(nn.Module):
    """Joins the stream of tokens with the update of a sub-layer, as a GRU joins its state with its input."""

    def __init__(self, width: int, bias: float) -> None:
        """Build the gate; it starts close to the identity for a large `bias`."""
        super().__init__()
        self.of_update = nn.Linear(width, 3 * width, bias=False)  # W_r, W_z, W_g
        self.of_stream = nn.Linear(width, 2 * width, bias=False)  # U_r, U_z
        self.of_reset = nn.Linear(width, width, bias=False)  # U_g
        self.identity_bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, stream: Tensor, update: Tensor) -> Tensor:
        """Join x and y, [..., E] each."""
        reset_y, mix_y, new_y = self.of_update(update).chunk(3, dim=-1)
        reset_x, mix_x = self.of_stream(stream).chunk(2, dim=-1)
        reset = torch.sigmoid(reset_y + reset_x)  # r = σ(W_r y + U_r x)
        mix = torch.sigmoid(mix_y + mix_x - self.identity_bias)  # z = σ(W_z y + U_z x − b_g)
        new = torch.tanh(new_y + self.of_reset(reset * stream))  # h = tanh(W_g y + U_g (r ∘ x))
        return stream + mix * (new - stream)  # (1 − z) ∘ x + z ∘ h


@dataclass(frozen=True)
class _View:
    """Who sees whom, at which distance; the same for all blocks."""

    hidden: Tensor
    """Where a new token must not look, [N, 1, T, C + T]."""
    waves: Tensor
    """Sines and cosines of the distances 0 … C + T - 1, [C + T, E]."""
    distance: Tensor
    """Distance from each new token back to each token, [T, C + T]; 0 where that lies in the future."""


class RelativeAttention(nn.Module):
    """Attention whose scores depend on contents and on the distance of two tokens (Transformer-XL)."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        """Build the projections."""
        super().__init__()
        self.heads, self.head_width = heads, head_width
        self.query = nn.Linear(width, heads * head_width, bias=False)
        self.key_value = nn.Linear(width, 2 * heads * head_width, bias=False)
        self.position = nn.Linear(width, heads * head_width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, head_width))  # u
        self.position_bias = nn.Parameter(torch.zeros(heads, head_width))  # v
        self.out = nn.Linear(heads * head_width, width, bias=False)

    def forward(self, tokens: Tensor, view: _View) -> Tensor:
        """Mix remembered and new tokens, [N, C + T, E], for each new one, [N, T, E]."""
        length = len(view.distance)
        query = self._split(self.query(tokens[:, -length:]))  # [N, T, H, d]
        key, value = map(self._split, self.key_value(tokens).chunk(2, dim=-1))  # [N, C + T, H, d]
        position = self._split(self.position(view.waves))[view.distance]  # [T, C + T, H, d]
        # score = (q + u)ᵀ k + (q + v)ᵀ W R(distance)
        score = torch.einsum("nthd,nshd->nhts", query + self.content_bias, key)
        score = score + torch.einsum("nthd,tshd->nhts", query + self.position_bias, position)
        score = (score * self.head_width**-0.5).masked_fill(view.hidden, float("-inf"))
        mixed = torch.einsum("nhts,nshd->nthd", score.softmax(-1), value)
        return self.out(mixed.flatten(-2))

    def _split(self, projected: Tensor) -> Tensor:
        """[..., H d] to [..., H, d]."""
        return projected.unflatten(-1, (self.heads, self.head_width))


class GatedBlock(nn.Module):
    """Attention, then an MLP; each reads normalised tokens and joins the stream through a gate."""

    def __init__(self, config: GatedTransformerConfig) -> None:
        """Build the block."""
        super().__init__()
        self.norm_attention = nn.LayerNorm(config.width)
        self.attention = RelativeAttention(config.width, config.heads, config.head_width)
        self.gate_attention = GruGate(config.width, config.gate_bias)
        self.norm_mlp = nn.LayerNorm(config.width)
        self.mlp_in = nn.Linear(config.width, config.mlp_width)
        self.mlp_out = nn.Linear(config.mlp_width, config.width)
        self.gate_mlp = GruGate(config.width, config.gate_bias)

    def forward(self, tokens: Tensor, memory: Tensor, view: _View) -> Tensor:
        """Transform new tokens, [N, T, E], that also see the remembered ones, [N, C, E]."""
        context = self.norm_attention(torch.cat((memory, tokens), dim=1))
        tokens = self.gate_attention(tokens, fn.relu(self.attention(context, view)))
        hidden = fn.relu(self.mlp_in(self.norm_mlp(tokens)))
        return self.gate_mlp(tokens, fn.relu(self.mlp_out(hidden)))


class GatedTransformer(nn.Module):
    """A stack of gated blocks over the features of consecutive steps."""

    def __init__(self, config: GatedTransformerConfig, num_features: int) -> None:
        """Build the network; randomness comes from torch's global generator."""
        super().__init__()
        self.config = config
        self.encoder = nn.Linear(num_features, config.width)
        self.blocks = nn.ModuleList(GatedBlock(config) for _ in range(config.layers))
        self._initialise()

    def forward(self, features: Tensor, memory: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Read consecutive steps of some episodes.

        Args:
            features: The steps, [N, T, F].
            memory: What each block was fed in the steps before, the newest at the end, [N, K, C, E].
            visible: How many of the remembered steps there were, the newest ones, [N].

        Returns:
            Output for each step, [N, T, E], and what each block was fed, without a gradient, [N, K, T, E].
        """
        tokens: Tensor = self.encoder(features)
        view = _view(tokens, memory.shape[2], visible)
        fed = []
        for block, remembered in zip(self.blocks, memory.detach().unbind(1), strict=True):
            fed.append(tokens.detach())
            tokens = block(tokens, remembered, view)
        return tokens, torch.stack(fed, dim=1)

    def step(self, features: Tensor, context: Context) -> tuple[Tensor, Context]:
        """Read one step of each episode, [N, F], in its context; output, [N, E], and the context after it."""
        output, fed = self(features.unsqueeze(1), context.inputs, context.visible)
        return output.squeeze(1), context.after(fed)

    def _initialise(self) -> None:
        """Xavier weights, one square of a gate or projection at a time, and zero biases."""
        for module in self.modules():
            if isinstance(module, GruGate):
                xavier(module.of_update, matrices=3)
                xavier(module.of_stream, matrices=2)
                xavier(module.of_reset)
            elif isinstance(module, RelativeAttention):
                xavier(module.key_value, matrices=2)
                for linear in (module.query, module.position, module.out):
                    xavier(linear)
                nn.init.xavier_uniform_(module.content_bias)
                nn.init.xavier_uniform_(module.position_bias)
            elif isinstance(module, GatedBlock):
                xavier(module.mlp_in)
                xavier(module.mlp_out)
        xavier(self.encoder)


def xavier(linear: nn.Linear, matrices: int = 1) -> None:
    """Xavier weights for each of the layers that share a matrix, zero biases."""
    for matrix in linear.weight.detach().chunk(matrices):
        nn.init.xavier_uniform_(matrix)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def _view(tokens: Tensor, remembered: int, visible: Tensor) -> _View:
    """Who sees whom: causal among the new tokens, [N, T, E], and the newest `visible`, [N], of those remembered."""
    future, distance, waves = _geometry(tokens.shape[1], remembered, tokens.shape[2], tokens.dtype, tokens.device)
    place = torch.arange(remembered + tokens.shape[1], device=tokens.device)
    before = place < remembered - visible[:, None]  # [N, C + T]
    return _View((before[:, None] | future).unsqueeze(1), waves, distance)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # it may be made while acting and used for gradients later
def _geometry(
    length: int, remembered: int, width: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """What depends on sizes only: future tokens, [T, C + T], distances, [T, C + T], waves, [C + T, E]."""
    place = torch.arange(remembered + length, device=device)
    distance = place[remembered:, None] - place  # [T, C + T]
    rate = 10_000.0 ** (-torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)  # [E / 2]
    angle = place[:, None] * rate
    waves = torch.cat((angle.sin(), angle.cos()), dim=-1).to(dtype)
    return distance < 0, distance.clamp(min=0), waves
