"""Products in both precisions, against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.models.bf16 import bf16_is_faster
from top_erl.models.fast import products as module
from top_erl.models.fast.products import BlasProducts, LowProducts, Products, low_products


def _layouts(rows: int, columns: int) -> list[Tensor]:
    """The same kind of matrix, lying in memory in different ways."""
    return [
        torch.randn(rows, columns),
        torch.randn(columns, rows).mT,
        torch.randn(rows, 2 * columns)[:, columns:],
        torch.randn(rows, 2 * columns)[:, ::2],
    ]


def _may_crash() -> bool:
    """Whether PyTorch's own bfloat16 product may end the process here."""
    return isinstance(low_products(), BlasProducts)


ROUTES = {"float32": Products(), "torch": LowProducts(), "blas": BlasProducts()}


@pytest.fixture(params=ROUTES)
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Products:
    made = ROUTES[request.param]
    if request.param == "torch" and _may_crash():
        # PyTorch's own bfloat16 product may end the process there; its rounding is the same in float32.
        monkeypatch.setattr(made, "cast", lambda data: data.to(torch.bfloat16).float())
    if request.param == "blas" and module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    return made


def test_products_of_all_layouts(products: Products) -> None:
    torch.manual_seed(0)
    tolerance = 1e-5 if type(products) is Products else 0.03
    for left in _layouts(5, 7):
        for right in _layouts(7, 3):
            expected = (left.double() @ right.double()).float()
            a, b = products.cast(left), products.cast(right)
            start, bias = torch.randn(5, 3), torch.randn(3)
            product = products.product(a, b)
            added = products.add_product(start.clone(), a, b)
            assert product.dtype == added.dtype == torch.float32
            for found, wanted in (
                (product, expected),
                (added, expected + start),
                (products.raw(a, b).float(), expected),
                (products.raw_affine(a, b, bias).float(), expected + bias),
                (products.column_sums(products.raw(a, b)), expected.sum(0)),
            ):
                torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def test_products_of_the_blas_are_exact_sums_of_rounded_numbers() -> None:
    if module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    left, right = torch.randn(64, 128), torch.randn(128, 32)
    blas = ROUTES["blas"]
    a, b = blas.cast(left), blas.cast(right)
    torch.testing.assert_close(blas.product(a, b), a.float() @ b.float(), rtol=1e-5, atol=1e-4)


def test_column_sums_of_many_rows_are_summed_in_single_precision() -> None:
    """Ones added one by one in bfloat16 would stop growing at 256."""
    products = low_products()
    assert products.column_sums(products.raw(products.cast(torch.ones(4096, 1)), products.cast(torch.ones(1, 2))))[
        0
    ] == pytest.approx(4096)


@pytest.mark.parametrize(("matrix_unit", "vectors"), [(False, False), (False, True), (True, True)])
def test_the_route_follows_the_processor(matrix_unit: bool, vectors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: matrix_unit, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: vectors, raising=False)
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert isinstance(low_products(), BlasProducts) == matrix_unit
    assert bf16_is_faster(cpu) == vectors
    assert bf16_is_faster(gpu)


@pytest.mark.parametrize("matrix_unit", [None, False, True])
def test_older_and_unknown_versions_of_torch(matrix_unit: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions had other names; without an answer the product that cannot crash is taken."""
    if module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    for question in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, question, raising=False)
    if matrix_unit is not None:
        monkeypatch.setattr(torch.cpu, "_is_cpu_support_amx_tile", lambda: matrix_unit, raising=False)
    cpu = torch.device("cpu")
    assert isinstance(low_products(), BlasProducts) == (matrix_unit is not False)
    assert bf16_is_faster(cpu) == bool(matrix_unit)


def test_shapes_and_types_that_do_not_fit_are_refused() -> None:
    if module._blas_product() is None:
        pytest.skip("this build of PyTorch has no bfloat16 product in its BLAS")
    blas = ROUTES["blas"]
    a = torch.zeros(2, 3, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="cannot multiply"):
        blas.product(a, a)
    with pytest.raises(ValueError, match="cannot multiply"):
        blas.product(a, torch.zeros(3, 2))
    b = torch.zeros(3, 2, dtype=torch.bfloat16)
    for out in (torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, 4)[:, ::2]):
        with pytest.raises(ValueError, match="cannot write"):
            blas.add_product(out, a, b)
