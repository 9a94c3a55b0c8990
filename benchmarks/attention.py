"""Attention of short sequences: batched products over groups against the fused kernel, forward and backward."""

from __future__ import annotations

import statistics

import torch

from benchmarks.timing import interleaved
from top_erl.models.attention import BatchedAttention, FusedAttention, group_size, make_attention

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

            def attend(kind: type[BatchedAttention] | type[FusedAttention]) -> None:
                attention = kind(heads)  # noqa: B023
                attention.forward(inputs)  # noqa: B023
                attention.backward(grad)  # noqa: B023

            seconds = interleaved(
                [lambda _: attend(BatchedAttention), lambda _: attend(FusedAttention)], 10 if quick else 40
            )
            batched, fused = (1e3 * statistics.median(times) for times in seconds)
            used = "batched" if isinstance(make_attention(length, heads, inputs.device), BatchedAttention) else "fused"
            rows.append(
                {
                    "size": name,
                    "tokens": length,
                    "group": group_size(count, length),
                    "batched_ms": batched,
                    "fused_ms": fused,
                    "ratio": fused / batched,
                    "used": used,
                }
            )
    return rows
