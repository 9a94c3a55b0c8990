"""Attention of short sequences: batched products over groups, the fused kernel, and what is used; both passes."""

from __future__ import annotations

import statistics

import torch

from benchmarks.timing import interleaved
from top_erl.models.fast.attention import BatchedAttention, CausalAttention, FusedAttention, group_size, make_attention

SHAPES = {"laptop": (64, 4, 960), "paper": (128, 8, 4096)}
"""Width, heads and tokens of a pass."""
LENGTHS = (2, 3, 4, 5, 6, 9, 13, 17, 26, 34, 51, 101, 126, 251)


def run(quick: bool) -> list[dict[str, object]]:
    """Milliseconds per pass for sequences of different lengths, and which kernel is used."""
    rows: list[dict[str, object]] = []
    for name, (width, heads, tokens) in SHAPES.items():
        for length in LENGTHS[::3] if quick else LENGTHS:
            count = max(1, tokens // length // 8) * 8
            inputs, grad = torch.randn(count, length, 3 * width), torch.randn(count, length, width)

            def attend(attention: CausalAttention) -> None:
                attention.forward(inputs)  # noqa: B023
                attention.backward(grad)  # noqa: B023

            chosen = make_attention(length, heads)
            contestants = (BatchedAttention(heads), FusedAttention(heads), chosen)
            functions = [lambda _, contestant=contestant: attend(contestant) for contestant in contestants]
            seconds = interleaved(functions, 10 if quick else 40)
            batched, fused, used = (1e3 * statistics.median(times) for times in seconds)
            rows.append(
                {
                    "size": name,
                    "tokens": length,
                    "group": group_size(count, length),
                    "batched_ms": batched,
                    "fused_ms": fused,
                    "ratio": fused / batched,
                    "used": type(chosen).__name__,
                    "used_ms": used,
                }
            )
    return rows
