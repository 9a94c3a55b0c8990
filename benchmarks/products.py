"""The machine's own limit: rates of the matrix products that a step makes, in both precisions."""

from __future__ import annotations

import platform
import statistics
from pathlib import Path

import torch

from benchmarks.timing import interleaved
from top_erl.models.fast.products import FULL, Products, low_products

SHAPES = {"laptop": (960, 64), "paper": (6144, 128)}
"""Tokens and width."""


def run(quick: bool) -> list[dict[str, object]]:
    """Billions of operations a second: forward, backward to the tokens, backward to the weights."""
    low = low_products()
    rows: list[dict[str, object]] = []
    for name, (tokens, width) in SHAPES.items():
        for inputs, outputs in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
            row: dict[str, object] = {"size": name, "product": f"{tokens} x {inputs} x {outputs}"}
            for precision, products in (("float32", FULL), ("bf16", low)):
                rates = _rates(products, tokens, inputs, outputs, 10 if quick else 50)
                row |= {
                    f"{precision}_{kind}": rate for kind, rate in zip(("out", "back", "weights"), rates, strict=True)
                }
            rows.append(row)
    return rows


def _rates(products: Products, tokens: int, inputs: int, outputs: int, rounds: int) -> list[float]:
    """Rates of the three products of a layer, taking turns."""
    data, weight, grad = (
        products.cast(torch.randn(shape)) for shape in ((tokens, inputs), (outputs, inputs), (tokens, outputs))
    )
    seconds = interleaved(
        [
            lambda _: products.raw(data, weight.mT),
            lambda _: products.raw(grad, weight),
            lambda _: products.raw(grad.mT, data),
        ],
        rounds,
        warmup=5,
    )
    return [2e-9 * tokens * inputs * outputs / statistics.median(record) for record in seconds]


def machine() -> dict[str, object]:
    """The processor, with what it can do that matters here, and the way to bfloat16 that it is given."""
    route = type(low_products()).__name__
    return {"processor": _processor(), "bf16_route": route, "torch": torch.__version__}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return " ".join([name, *(flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags)])
