"""Least squares: the parameters whose trajectory is nearest to a demonstration.

Axes: `T` times, `D` degrees of freedom, `G` columns of the basis.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives.reference import broadcast_shape


def ridge_regression(design: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """Minimise |design w_d - targets_d|^2 + ridge |w_d|^2 for every degree of freedom d.

    Solved in float64 as a least-squares problem with sqrt(ridge) rows appended: the same minimum as by the
    normal equations, without squaring the condition number.

    Args:
        design: Basis values, [..., T, G].
        targets: What the basis should reproduce, [..., T, D].
        ridge: Weight of the penalty, above 0.

    Returns:
        Parameters in the dtype of `targets`, DoF-major, [..., D * G].
    """
    if ridge <= 0:
        raise UserError(f"ridge is {ridge}; set it above 0, e.g. 1e-9.")
    lead = broadcast_shape(design.shape[:-2], targets.shape[:-2])
    columns, dofs = design.shape[-1], targets.shape[-1]
    penalty = ridge**0.5 * torch.eye(columns, dtype=torch.float64, device=targets.device)  # [G, G]
    rows = torch.cat((design.double().expand(*lead, -1, -1), penalty.expand(*lead, -1, -1)), dim=-2)  # [..., T+G, G]
    zeros = torch.zeros(*lead, columns, dofs, dtype=torch.float64, device=targets.device)
    values = torch.cat((targets.double().expand(*lead, -1, -1), zeros), dim=-2)  # [..., T+G, D]
    weights: Tensor = torch.linalg.lstsq(rows, values).solution  # [..., G, D]
    return weights.mT.flatten(-2).to(targets.dtype)
