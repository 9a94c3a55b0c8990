"""Randomness without hidden state: every random stream is named and counted.

A generator is derived from (run seed, stream name, index) alone, e.g. the exploration noise of episode 123. Nothing
has to be remembered to go on after a stop, no stream disturbs another, and the same seed gives the same run.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch


def derive(seed: int, stream: str, index: int) -> int:
    """A 63-bit seed for one use of a named stream."""
    key = (zlib.crc32(stream.encode()), index)
    words = np.random.SeedSequence(entropy=seed, spawn_key=key).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def episode_seeds(seed: int, stream: str, first: int, count: int) -> list[int]:
    """Seeds of consecutive episodes of a stream, small enough for any environment (31 bits)."""
    return [derive(seed, stream, first + i) >> 32 for i in range(count)]


def torch_generator(seed: int, stream: str, index: int) -> torch.Generator:
    """A CPU generator for one use of a named stream."""
    return torch.Generator().manual_seed(derive(seed, stream, index))
