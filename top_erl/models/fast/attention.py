"""Causal attention for many short sequences, forward and backward.

Sequences are short (2 to 26 tokens in most cuts) and heads are small (16), so a kernel that is called once per sequence
and head spends its time on being called. On a CPU, sequences are laid end to end in groups of about 16 tokens, with a
mask that lets a token see only its own sequence, and the groups go through batched matrix products: the same numbers in
a half to a third of the time (`python -m benchmarks --only attention`). Two tokens are a formula. Long sequences
use PyTorch's fused kernel. Numbers may come and go in bfloat16; what is in between is float32.

Axes: `N` sequences, `M` tokens, `G` sequences per group, `n` = N/G groups, `m` = G·M tokens of a group, `H` heads,
`E` width, `d` = E/H.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as fn

LONGEST_BATCHED = 128
"""Longest sequence for which batched products beat the fused kernel, measured."""
_LONGEST_BY_SUMS = 20
"""The same for the attention of one token by plain sums."""
_FEWEST_TOKENS, _MOST_TOKENS = 16, 48
"""Tokens of a group: a vector register of scores, and not too many that do not see each other."""


class CausalAttention(ABC):
    """One pass of attention over sequences; keeps what its own backward needs."""

    def __init__(self, heads: int) -> None:
        """Make a pass with a number of heads."""
        self.heads = heads

    def forward(self, query_key_value: Tensor) -> Tensor:
        """Mix the tokens of each sequence, each from itself and the ones before.

        Args:
            query_key_value: Queries, keys and values, one after the other, [N, M, 3E], contiguous.

        Returns:
            Mixed values, [N, M, E].
        """
        count, length, triple = query_key_value.shape
        mixed = query_key_value.new_empty(count, length, triple // 3)
        self.forward_into(query_key_value, mixed)
        return mixed

    def backward(self, grad: Tensor) -> Tensor:
        """Gradient of queries, keys and values, [N, M, 3E], from that of the mixed values, [N, M, E]."""
        count, length, width = grad.shape
        out = grad.new_empty(count, length, 3 * width)
        self.backward_into(grad, out)
        return out

    @abstractmethod
    def forward_into(self, query_key_value: Tensor, mixed: Tensor) -> None:
        """`forward`, written to `mixed`, [N, M, E]."""

    @abstractmethod
    def backward_into(self, grad: Tensor, out: Tensor) -> None:
        """`backward`, written to `out`, [N, M, 3E]."""


class FusedAttention(CausalAttention):
    """Attention by PyTorch's fused kernel."""

    def forward(self, query_key_value: Tensor) -> Tensor:
        """Mix, [N, M, 3E] to [N, M, E]."""
        self._inputs = _wide(query_key_value.detach()).requires_grad_()
        with torch.enable_grad():  # a graph of its own, since this runs inside a hand-written node
            self._mixed = fused_attention(self._inputs, self.heads)
        return self._mixed.detach().to(query_key_value.dtype)

    def backward(self, grad: Tensor) -> Tensor:
        """Gradient of the inputs, [N, M, E] to [N, M, 3E]."""
        inputs = torch.autograd.grad(self._mixed, self._inputs, _wide(grad), retain_graph=True)[0]
        return inputs.to(grad.dtype)

    def forward_into(self, query_key_value: Tensor, mixed: Tensor) -> None:
        """Mix, and copy."""
        mixed.copy_(self.forward(query_key_value))

    def backward_into(self, grad: Tensor, out: Tensor) -> None:
        """Differentiate, and copy."""
        out.copy_(self.backward(grad))


class BatchedAttention(CausalAttention):
    """Attention by batched matrix products over groups of sequences."""

    before = 0
    """Constant tokens before the first of each sequence."""

    def forward_into(self, query_key_value: Tensor, mixed: Tensor) -> None:
        """Mix, [N, M, 3E] to [N, M, E]."""
        count, length, triple = query_key_value.shape
        group = group_size(count, length + self.before)
        self._sizes = (count // group, group, length, self.heads, triple // (3 * self.heads))
        packed = self._pack(query_key_value, 3)
        self._place_first(packed)
        self._packed = query, key, value = packed.flatten(3, 4).flatten(1, 2).unbind()  # [n·H, m, d] each
        self._weights = _weights(query, key, length + self.before)
        self._unpack(torch.bmm(self._weights, value), mixed, 1)

    def backward_into(self, grad: Tensor, out: Tensor) -> None:
        """Gradient of the inputs, [N, M, E] to [N, M, 3E]."""
        packed = self._pack(grad, 1)
        if self.before:
            packed[..., 0, :] = 0.0
        grad_mixed = packed[0].flatten(2, 3).flatten(0, 1)  # [n·H, m, d]
        query, key, value = self._packed
        grads = query.new_empty(3, *query.shape)
        torch.bmm(self._weights.mT, grad_mixed, out=grads[2])
        # softmax: ds = p ∘ (dp - Σ_j p dp); the scale d^-½ of the scores comes with the products
        grad_weights = torch.bmm(grad_mixed, value.mT)
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, self._weights, -1, query.dtype)
        scale = self._sizes[-1] ** -0.5
        torch.baddbmm(grads[0], grad_scores, key, beta=0, alpha=scale, out=grads[0])
        torch.baddbmm(grads[1], grad_scores.mT, query, beta=0, alpha=scale, out=grads[1])
        self._unpack(grads, out, 3)

    def _place_first(self, packed: Tensor) -> None:
        """Fill in the tokens before, in [3, n, H, G, M + before, d]: here there are none."""

    def _pack(self, data: Tensor, slots: int) -> Tensor:
        """Tokens, [N, M, slots · E], by slot, group and head, [slots, n, H, G, M + before, d].

        There are three slots for queries, keys and values, or one. The tokens before are not filled in.
        """
        groups, group, length, heads, size = self._sizes
        dtype = _working(data.dtype)
        packed = data.new_empty(slots, groups, heads, group, length + self.before, size, dtype=dtype)
        packed[..., self.before :, :] = self._by_head(data, slots)
        return packed

    def _unpack(self, packed: Tensor, out: Tensor, slots: int) -> None:
        """The inverse of `_pack`, [slots · n · H, m, d] to [N, M, slots · E], without the tokens before."""
        groups, group, length, heads, size = self._sizes
        by_head = packed.view(slots, groups, heads, group, length + self.before, size)
        self._by_head(out, slots).copy_(by_head[..., self.before :, :])

    def _by_head(self, data: Tensor, slots: int) -> Tensor:
        """A view of tokens, [N, M, slots · E], by slot, group and head, [slots, n, H, G, M, d]."""
        groups, group, length, heads, size = self._sizes
        return data.view(groups, group, length, slots, heads, size).permute(3, 0, 4, 1, 2, 5)


class AttentionAfter(BatchedAttention):
    """Batched attention of sequences that see one more token before their first one, which is a constant.

    By causality that token does not depend on the sequence, so every gradient that would arrive at it can be left out
    when only gradients of the sequence are needed.
    """

    before = 1

    def __init__(self, heads: int, first: Tensor) -> None:
        """Make a pass; `first` holds key and value of the token before each sequence, [N, 2E]."""
        super().__init__(heads)
        self._first = first

    def _place_first(self, packed: Tensor) -> None:
        """Its key and value; nobody asks for its query (square products are faster than those without it)."""
        groups, group, _, heads, size = self._sizes
        packed[0, ..., 0, :] = 0.0
        packed[1:, ..., 0, :] = self._first.view(groups, group, 2, heads, size).permute(2, 0, 3, 1, 4)


class PairAttention(CausalAttention):
    """Attention of sequences of two tokens, written out.

    The first token sees itself alone. The second one mixes both values by p = σ(q₁·(k₁ - k₀) / √d), so that
    m₀ = v₀ and m₁ = v₀ + p (v₁ - v₀).
    """

    def forward_into(self, query_key_value: Tensor, mixed: Tensor) -> None:
        """Mix, [N, 2, 3E] to [N, 2, E]."""
        query, key, value = query_key_value.chunk(3, dim=-1)  # [N, 2, E] each
        self._query, first = _wide(query[:, 1]), _wide(value[:, 0])  # [N, E] each
        self._keys, self._values = (_wide(pair[:, 1]) - pair[:, 0] for pair in (key, value))  # k₁ - k₀, v₁ - v₀
        size = self._query.shape[1] // self.heads
        self._scale, self._sums = size**-0.5, _sums_of_heads(self.heads, size, self._query.dtype)
        self._share = ((self._query * self._keys) @ self._sums).mul_(self._scale).sigmoid_()  # p, [N, H]
        mixed[:, 0] = first
        mixed[:, 1] = torch.addcmul(first, self._share @ self._sums.mT, self._values)

    def backward_into(self, grad: Tensor, out: Tensor) -> None:
        """Gradient of the inputs, [N, 2, E] to [N, 2, 3E]."""
        query, key, value = out.chunk(3, dim=-1)
        first, second = _wide(grad[:, 0]), _wide(grad[:, 1])  # [N, E] each
        pull = (second * self._values) @ self._sums  # dp, [N, H]
        pull *= self._share * (1.0 - self._share) * self._scale  # dσ = p (1 - p)
        wide = pull @ self._sums.mT  # [N, E]
        to_key, to_value = wide * self._query, (self._share @ self._sums.mT).mul_(second)
        query[:, 0] = 0.0
        torch.mul(wide, self._keys, out=wide)
        query[:, 1], key[:, 1], value[:, 1] = wide, to_key, to_value
        key[:, 0], value[:, 0] = to_key.neg_(), first + second - to_value


@lru_cache(maxsize=64)
def _sums_of_heads(heads: int, size: int, dtype: torch.dtype) -> Tensor:
    """A matrix that adds up the entries of each head, [E, H]; its transpose copies one number to all of them."""
    return torch.eye(heads, dtype=dtype, device="cpu").repeat_interleave(size, dim=0)


def make_attention(length: int, heads: int) -> CausalAttention:
    """The fastest attention for sequences of a length."""
    if length == 2:
        return PairAttention(heads)
    return BatchedAttention(heads) if length <= LONGEST_BATCHED else FusedAttention(heads)


def fused_attention(query_key_value: Tensor, heads: int) -> Tensor:
    """Causal attention by PyTorch's fused kernel, differentiable, [N, M, 3E] to [N, M, E]."""
    split = query_key_value.unflatten(-1, (3, heads, -1))
    query, key, value = split.transpose(1, 3).unbind(2)  # [N, H, M, d] each
    mixed = fn.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).flatten(-2)


def attention_of_one(query: Tensor, key: Tensor, value: Tensor, index: Tensor, heads: int) -> Tensor:
    """Mix for one token of each sequence only.

    Args:
        query: Its query, [N, E].
        key: Keys of all tokens, [N, M, E].
        value: Values of all tokens, [N, M, E].
        index: Its place in the sequence, [N]; later tokens are masked.
        heads: H.

    Returns:
        Mixed values, [N, E].
    """
    length, width = key.shape[1:]
    query, key, value = _wide(query), _wide(key), _wide(value)
    if length == 2:
        sums, scale = _sums_of_heads(heads, width // heads, query.dtype), (width // heads) ** -0.5
        share = ((query * (key[:, 1] - key[:, 0])) @ sums).mul_(scale).sigmoid_()  # as in `PairAttention`, [N, H]
        share *= (index > 0).unsqueeze(1)
        return torch.addcmul(value[:, 0], share @ sums.mT, value[:, 1] - value[:, 0])
    visible = torch.arange(length, device="cpu") <= index[:, None]  # [N, M]
    key, value = key.unflatten(-1, (heads, -1)), value.unflatten(-1, (heads, -1))  # [N, M, H, d] each
    query = query.unflatten(-1, (heads, -1)).unsqueeze(1)  # [N, 1, H, d]
    if length > _LONGEST_BY_SUMS:
        query, key, value = (data.transpose(1, 2) for data in (query, key, value))
        return fn.scaled_dot_product_attention(query, key, value, attn_mask=visible[:, None, None]).flatten(1)
    # With one query a sequence, matrix products are all overhead: products and sums over the short axes instead.
    score = (query * (width // heads) ** -0.5 * key).sum(-1)  # [N, M, H]
    weights = score.masked_fill(~visible.unsqueeze(-1), float("-inf")).softmax(1)
    return (weights.unsqueeze(-1) * value).sum(1).flatten(-2)


def _working(dtype: torch.dtype) -> torch.dtype:
    """The precision in which attention is computed."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def _wide(data: Tensor) -> Tensor:
    """The same numbers in the precision in which attention is computed."""
    return data.to(_working(data.dtype))


def group_size(count: int, length: int) -> int:
    """How many of `count` sequences to lay end to end: a divisor that makes groups of 16 tokens or a little more."""
    divisors = [group for group in range(1, _MOST_TOKENS // length + 1) if count % group == 0] or [1]
    return next((group for group in divisors if group * length >= _FEWEST_TOKENS), divisors[-1])


_MANY_ROWS = 8192
"""Rows from which five passes over them beat one call of softmax, measured."""
_SUMS = (1e-30, 1e30)
"""Sums of exponentials that can be trusted: nothing of weight has overflowed or vanished."""


def _weights(query: Tensor, key: Tensor, length: int) -> Tensor:
    """Softmax of the scaled scores over the visible tokens, [n·H, m, d] twice to [n·H, m, m].

    Over rows that do not fill vector registers, PyTorch's softmax takes ten times as long as the exponentials in it.
    For many such rows they are taken without subtracting the row's largest score first, which only matters for scores
    beyond ±70; the sums tell.
    """
    count, tokens, size = query.shape
    scale = size**-0.5
    if tokens > _FEWEST_TOKENS and count * tokens > _MANY_ROWS:
        scores = query.new_empty(count, tokens, tokens)
        torch.baddbmm(scores, query, key.mT, beta=0, alpha=scale, out=scores)
        total = scores.exp_().mul_(_causal(tokens, length, query.dtype)).sum(-1, keepdim=True)
        least, most = total.aminmax()
        if float(least) > _SUMS[0] and float(most) < _SUMS[1]:
            return scores.div_(total)
    return torch.baddbmm(_mask(tokens, length, query.dtype), query, key.mT, alpha=scale).softmax(-1)


@lru_cache(maxsize=256)
def _causal(tokens: int, length: int, dtype: torch.dtype) -> Tensor:
    """1 where a token may look, 0 elsewhere: causal inside each sequence, nothing across; [m, m]."""
    token = torch.arange(tokens, device="cpu")
    sequence = token // length
    return ((sequence[:, None] == sequence) & (token[:, None] >= token)).to(dtype)


@lru_cache(maxsize=256)
def _mask(tokens: int, length: int, dtype: torch.dtype) -> Tensor:
    """The same to be added to scores: 0 where a token may look, -inf elsewhere; [m, m]."""
    return _causal(tokens, length, dtype).log()
