"""Moving small tensors to the device of the networks without making the processor wait."""

from __future__ import annotations

import torch
from torch import Tensor


def send(data: Tensor, device: torch.device) -> Tensor:
    """Bring a tensor to a device; to a GPU through pinned memory, in the background."""
    if data.device == device:
        return data
    if device.type == "cuda" and data.device.type == "cpu":
        return data.pin_memory().to(device, non_blocking=True)
    return data.to(device)
