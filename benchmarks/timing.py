"""Timing and counting: interleaved medians, the machine's matmul rate, needed operations, peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.sizes import Size
from top_erl.algorithms.top_erl.segments import Segments


def interleaved(functions: Sequence[Callable[[int], object]], rounds: int, warmup: int = 1) -> list[list[float]]:
    """Call all functions in turn, `rounds` times, each with the round's number; seconds of every call."""
    for number in range(warmup):
        for function in functions:
            function(number)
    seconds: list[list[float]] = [[] for _ in functions]
    for number in range(rounds):
        for function, record in zip(functions, seconds, strict=True):
            began = time.perf_counter()
            function(number)
            record.append(time.perf_counter() - began)
    return seconds


class MatmulClock:
    """The products a step makes with the critic's four weights, alone, as a clock for the machine's present speed.

    A critic step passes forward through them about twice (online and targets) and back once for the tokens and once for
    the weights; a policy step forward and back once for the tokens.
    """

    def __init__(self, tokens: int, width: int, step: str) -> None:
        """Make the factors, and room for the results; more tokens than go through the critic at once gain nothing."""
        rows = min(tokens, 6144)
        shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
        self._products = [product for a, b in shapes for product in _products(rows, a, b, step == "critic")]
        operations = sum(2 * left.shape[0] * left.shape[1] * right.shape[1] for left, right, _ in self._products)
        self._repeats = max(1, int(2e9 / operations))  # some 10 ms
        self.operations = self._repeats * operations

    def __call__(self, number: int = 0) -> None:
        """Multiply for a while."""
        for _ in range(self._repeats):
            for left, right, out in self._products:
                torch.mm(left, right, out=out)


def _products(rows: int, inputs: int, outputs: int, critic: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Factors of a layer's products, forward and backward, and room for each result."""
    data, weight, grad = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
    forward, back = (data, weight.mT, torch.empty_like(grad)), (grad, weight, torch.empty_like(data))
    if not critic:
        return [forward, back]
    return [forward, forward, back, (grad.mT, data, torch.empty_like(weight))]


def critic_operations(size: Size, segments: Segments) -> float:
    """Floating-point operations a critic step cannot do without."""
    online = target = 0.0
    for length in segments.counts.tolist():  # padding is not needed
        online += 3 * _pass(size, size.batch, length + 1, layers=size.layers)  # forward, and twice that backward
        target += _pass(size, size.batch, length + 1, layers=size.layers - 1) + _last_layer(
            size, size.batch, length + 1
        )
    states = size.horizon - 1 - int(segments.starts[0])  # those that follow an action of a segment
    values = size.batch * states * size.layers * 2 * 9 * size.width**2  # one matrix for attention, and the MLP
    return online + target + values


def policy_operations(size: Size, segments: Segments) -> float:
    """Floating-point operations a policy step cannot do without: forward, and gradients into the actions.

    A state's token passes on its key and value, and what makes them in the next layer; it needs no gradient.
    """
    sequences, length = size.batch * len(segments.starts), segments.length
    linear = size.layers * 2 * 12 * size.width**2 * length
    attention = size.layers * 2 * size.width * (length * (length + 1) + 2 * length)  # the state is seen by all
    states = 2 * 2 * size.width**2 + (size.layers - 1) * 2 * 11 * size.width**2
    return float(sequences * (2 * (linear + attention) + states))


def _pass(size: Size, sequences: int, tokens: int, layers: int) -> float:
    """One forward pass through some layers: 12 E² weights a token and layer, and causal attention."""
    linear = 2 * 12 * size.width**2 * tokens
    attention = 2 * size.width * tokens * (tokens + 1)  # scores and mixing, half of them masked
    return float(sequences * layers * (linear + attention))


def _last_layer(size: Size, sequences: int, tokens: int) -> float:
    """The last layer for one token: keys and values of all, query, output and MLP of one."""
    return float(sequences * (2 * 2 * size.width**2 * tokens + 2 * 10 * size.width**2 + 4 * size.width * tokens))


def peak_memory(function: Callable[[], object]) -> int:
    """Bytes by which the process grows at most while the function runs (Linux)."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    clear.write_text("5")  # reset the high-water mark
    before = _status(status, "VmRSS")
    function()
    return _status(status, "VmHWM") - before


def _status(path: Path, key: str) -> int:
    line = next(line for line in path.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024
