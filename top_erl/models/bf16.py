"""What is known of bfloat16 products on a device."""

from __future__ import annotations

import torch


def torch_is_safe(device: torch.device) -> bool:
    """Whether PyTorch's own bfloat16 products are known not to end the process there."""
    return device.type != "cpu" or _asked("_is_amx_tile_supported", "_is_cpu_support_amx_tile") is False


def bf16_is_faster(device: torch.device) -> bool:
    """Whether bfloat16 products are faster than float32 ones there, as far as is known."""
    if device.type != "cpu":
        return True
    matrix_unit = _asked("_is_amx_tile_supported", "_is_cpu_support_amx_tile")
    return bool(matrix_unit or _asked("_is_avx512_bf16_supported", "_is_cpu_support_avx512_bf16"))


def _asked(*names: str) -> bool | None:
    """PyTorch's answer to a question about the processor, under one of its names; None if it does not know any."""
    questions = (getattr(torch.cpu, name, None) for name in names)
    return next((bool(question()) for question in questions if question is not None), None)
