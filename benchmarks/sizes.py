"""The sizes that are measured: from a laptop's to the paper's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Shapes of one update."""

    name: str
    batch: int
    """B: episodes per gradient step."""
    horizon: int
    """T: tokens per episode."""
    width: int
    """E: width of the critic."""
    heads: int
    layers: int
    observation: int
    """Entries of the raw observation."""
    dof: int
    basis: int
    tau: float
    dt: float
    """Seconds per token (stride included)."""
    relative_goal: bool
    policy: tuple[int, ...]
    stored: int = 0
    """Episodes in the replay; 0: two batches."""


LAPTOP = Size("laptop 32 x 25", 32, 25, 64, 4, 1, 16, 5, 5, 1.0, 0.04, True, (128, 128), 3000)
MEDIUM = Size("medium 64 x 100", 64, 100, 128, 8, 2, 28, 7, 8, 2.0, 0.02, False, (256, 256))
BOX = Size("box 512 x 100", 512, 100, 128, 8, 2, 28, 7, 8, 2.0, 0.02, False, (256, 256))
METAWORLD = Size("metaworld 256 x 100", 256, 100, 128, 8, 2, 39, 4, 8, 5.0, 0.0625, True, (128, 128))
HOPPER = Size("hopper 256 x 250", 256, 250, 128, 8, 2, 16, 3, 3, 0.8, 0.008, False, (128, 128))

SIZES = (LAPTOP, MEDIUM, BOX, METAWORLD, HOPPER)
SMALL = SIZES[:2]
