"""Products in both precisions, against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.models import products as module
from top_erl.models.products import FULL, LOW, Products


def _layouts(rows: int, columns: int) -> list[Tensor]:
    """The same kind of matrix, lying in memory in different ways."""
    return [
        torch.randn(rows, columns),
        torch.randn(columns, rows).mT,
        torch.randn(rows, 2 * columns)[:, columns:],
        torch.randn(rows, 2 * columns)[:, ::2],
    ]


@pytest.fixture(params=["blas", "torch"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(module, "_blas_product", lambda: None)
        # PyTorch's own bfloat16 product may not run on this processor; the rounding is the same in float32.
        monkeypatch.setattr(LOW, "factor", lambda data: data.to(torch.bfloat16).float())
    elif module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    return str(request.param)


@pytest.mark.parametrize("products", [FULL, LOW], ids=["float32", "bf16"])
def test_products_of_all_layouts(products: Products, route: str) -> None:
    tolerance = 1e-5 if products is FULL else 0.03
    for left in _layouts(5, 7):
        for right in _layouts(7, 3):
            expected = (left.double() @ right.double()).float()
            a, b = products.factor(left), products.factor(right)
            start, bias = torch.randn(5, 3), torch.randn(3)
            torch.testing.assert_close(products.product(a, b), expected, rtol=tolerance, atol=tolerance)
            torch.testing.assert_close(products.affine(a, b, bias), expected + bias, rtol=tolerance, atol=tolerance)
            added = products.add_product(start.clone(), a, b)
            torch.testing.assert_close(added, expected + start, rtol=tolerance, atol=tolerance)
            assert added.dtype == torch.float32


def test_low_products_are_exact_sums_of_rounded_factors() -> None:
    if module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    left, right = torch.randn(64, 128), torch.randn(128, 32)
    a, b = LOW.factor(left), LOW.factor(right)
    torch.testing.assert_close(LOW.product(a, b), a.float() @ b.float(), rtol=1e-5, atol=1e-4)


def test_shapes_and_types_that_do_not_fit_are_refused() -> None:
    if module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    a = torch.zeros(2, 3, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="cannot multiply"):
        LOW.product(a, a)
    with pytest.raises(ValueError, match="cannot multiply"):
        LOW.product(a, torch.zeros(3, 2))
    b = torch.zeros(3, 2, dtype=torch.bfloat16)
    for out in (torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, 4)[:, ::2]):
        with pytest.raises(ValueError, match="cannot write"):
            LOW.add_product(out, a, b)
