"""Matrix products in float32, or in bfloat16 with float32 sums and results.

Both precisions have one interface, `Products`: prepare a factor once, multiply it as often as needed. On a CPU the
bfloat16 product is the one of the BLAS inside PyTorch (MKL's `cblas_gemm_bf16bf16f32`), which uses the processor's
matrix unit and writes float32. PyTorch's own bfloat16 product would round its result and need another pass to widen it;
worse, oneDNN, which it calls, ends the process with an illegal instruction on virtual machines that announce the matrix
unit but hide its description. Where that BLAS is missing, and on GPUs, PyTorch's product is used.

Axes: `R` rows, `F` columns, `I` summed over.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
"""Constants of the CBLAS interface."""


class Products:
    """Products in the precision of their factors."""

    def factor(self, data: Tensor) -> Tensor:
        """Prepare a matrix for being multiplied."""
        return data

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply two prepared matrices, [R, I] and [I, F]; either may be a transposed view."""
        return left @ right

    def add_product(self, start: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """`start` + left right, [R, F]; `start`, [R, F], is overwritten."""
        return start.addmm_(left, right)

    def affine(self, left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        """Left right + bias, [R, F]; the bias is one row, [F]."""
        if left.device.type != "cpu" and left.dtype == bias.dtype:
            return torch.addmm(bias, left, right)
        return self.product(left, right).add_(bias)  # on a CPU addmm first copies the bias to every row: slower


class LowProducts(Products):
    """Products of bfloat16 factors, summed and returned in float32 (PyTorch's own are rounded to bfloat16 first)."""

    def factor(self, data: Tensor) -> Tensor:
        """Round to bfloat16."""
        return data.to(torch.bfloat16)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply two prepared matrices."""
        multiply = _blas_product() if left.device.type == "cpu" else None
        if multiply is None:
            return (left @ right).float()
        return _call(multiply, left, right, left.new_empty((left.shape[0], right.shape[1]), dtype=torch.float32), 0.0)

    def add_product(self, start: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """`start` + left right; `start` is overwritten."""
        multiply = _blas_product() if left.device.type == "cpu" else None
        if multiply is None:
            return start.add_(left @ right)
        return _call(multiply, left, right, start, 1.0)


FULL, LOW = Products(), LowProducts()


def _call(multiply: Any, left: Tensor, right: Tensor, out: Tensor, keep: float) -> Tensor:
    """`out` ← keep · out + left right, through the BLAS."""
    (rows, inner), columns = left.shape, right.shape[1]
    if left.dtype != torch.bfloat16 or right.dtype != torch.bfloat16 or right.shape[0] != inner:
        raise ValueError(f"cannot multiply {left.dtype} {tuple(left.shape)} by {right.dtype} {tuple(right.shape)}")
    if out.dtype != torch.float32 or not out.is_contiguous():
        raise ValueError(f"cannot write a product to {out.dtype} with strides {out.stride()}")
    left, left_layout, left_stride = _layout(left)
    right, right_layout, right_stride = _layout(right)
    multiply(
        *(_ROW_MAJOR, left_layout, right_layout, rows, columns, inner, 1.0),
        *(left.data_ptr(), left_stride, right.data_ptr(), right_stride, keep, out.data_ptr(), columns),
    )
    return out


def _layout(matrix: Tensor) -> tuple[Tensor, int, int]:
    """A matrix that the BLAS can read as it lies in memory, how it lies there, and the length of its rows there."""
    if matrix.stride(1) == 1 and matrix.stride(0) >= matrix.shape[1]:
        return matrix, _PLAIN, matrix.stride(0)
    if matrix.stride(0) == 1 and matrix.stride(1) >= matrix.shape[0]:
        return matrix, _TRANSPOSED, matrix.stride(1)
    return matrix.contiguous(), _PLAIN, matrix.shape[1]


@cache
def _blas_product() -> Any | None:
    """MKL's bfloat16 product from the library that PyTorch has loaded; None if this build has none."""
    folder = Path(torch.__file__).parent / "lib"
    names = ("libtorch_cpu.so", "torch_cpu.dll", "libtorch_cpu.dylib")
    path = next((folder / name for name in names if (folder / name).exists()), None)
    multiply = None if path is None else getattr(ctypes.CDLL(str(path)), "cblas_gemm_bf16bf16f32", None)
    if multiply is not None:
        size, real, pointer = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
        multiply.argtypes = [size] * 6 + [real, pointer, size, pointer, size, real, pointer, size]
        multiply.restype = None
    return multiply
