"""Matrix products in float32, or in bfloat16 with float32 sums.

All precisions have one interface, `Products`: cast a matrix once, multiply it as often as needed. There are two
routes to bfloat16, and which of them is fast depends on the processor:

- PyTorch's own product (oneDNN), on processors with bfloat16 vector instructions. It rounds its results to
  bfloat16 as well; what only goes through GELU stays that way, the rest is widened.
- The one of the BLAS inside PyTorch (MKL's `cblas_gemm_bf16bf16f32`), on processors with a matrix unit (AMX). It writes
  float32. There oneDNN is no choice: on virtual machines that announce the matrix unit but hide its description, it
  ends the process with an illegal instruction.

Axes: `R` rows, `F` columns, `I` summed over.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.models.bf16 import torch_is_safe

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
"""Constants of the CBLAS interface."""


class Products:
    """Products in the precision of their operands."""

    def cast(self, data: Tensor) -> Tensor:
        """The matrix in the precision in which it is multiplied."""
        return data

    def raw(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply two cast matrices, [R, I] and [I, F]; the result has the precision that comes cheapest."""
        return torch.mm(left, right)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply two cast matrices, [R, I] and [I, F]; either may be a transposed view."""
        return self.raw(left, right)

    def add_product(self, start: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """`start` + left right, [R, F]; `start`, [R, F], is overwritten."""
        return start.addmm_(left, right)

    def raw_affine(self, left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        """Left right + bias, [R, F], in the precision that comes cheapest; the bias is one row, [F]."""
        return self.raw(left, right).add_(bias)  # addmm first copies the bias to every row: slower

    def column_sums(self, data: Tensor) -> Tensor:
        """Sums over the rows of a raw result, [R, F] to [F]."""
        return data.sum(0)


class LowProducts(Products):
    """PyTorch's products of bfloat16 matrices, summed in float32 and rounded to bfloat16."""

    def cast(self, data: Tensor) -> Tensor:
        """Round to bfloat16."""
        return data.to(torch.bfloat16)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply two cast matrices, to float32."""
        return self.raw(left, right).float()

    def add_product(self, start: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """`start` + left right; `start` is overwritten."""
        return start.add_(self.raw(left, right))

    def raw_affine(self, left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        """Left right + bias, added before the result is rounded."""
        return torch.addmm(self.cast(bias), left, right)

    def column_sums(self, data: Tensor) -> Tensor:
        """Sums over the rows, to float32; as a product they take a quarter of the time."""
        return self.product(data.new_ones(1, len(data)), data)[0]


class BlasProducts(LowProducts):
    """Products of bfloat16 matrices by the BLAS inside PyTorch, summed and returned in float32."""

    def raw(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply two cast matrices, to float32."""
        return _call(left, right, left.new_empty((left.shape[0], right.shape[1]), dtype=torch.float32), 0.0)

    def add_product(self, start: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """`start` + left right; `start` is overwritten."""
        return _call(left, right, start, 1.0)

    def raw_affine(self, left: Tensor, right: Tensor, bias: Tensor) -> Tensor:
        """Left right + bias."""
        return self.raw(left, right).add_(bias)

    def column_sums(self, data: Tensor) -> Tensor:
        """Sums over the rows."""
        return data.sum(0)


FULL = Products()
_LOW, _BLAS = LowProducts(), BlasProducts()


def low_products() -> Products:
    """The faster bfloat16 products; the BLAS's, where PyTorch's are not known to be safe."""
    if torch_is_safe(torch.device("cpu")):
        return _LOW
    if _blas_product() is None:
        raise UserError("bfloat16 products are not known to be safe on this processor: use --precision float32.")
    return _BLAS


def _call(left: Tensor, right: Tensor, out: Tensor, keep: float) -> Tensor:
    """`out` ← keep · out + left right, through the BLAS."""
    multiply = _blas_product()
    assert multiply is not None
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
