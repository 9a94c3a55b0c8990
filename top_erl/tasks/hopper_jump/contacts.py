"""What the hopper's foot has done so far: touched the floor after the drop, left it, come down again.

Falling from its starting height, the robot lands once before it jumps. So only the second landing is the one that
counts, and bouncing off the floor right after the drop counts as a jump.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FloorContacts:
    """The three events of an episode, in their order; each happens once and stays true."""

    has_touched_floor: bool = False
    """The foot has touched the floor after the drop."""
    has_left_floor: bool = False
    """It has left the floor since."""
    has_landed: bool = False
    """It has come down again since."""
    landing_distance: float | None = None
    """Distance of the foot to the goal when it came down; None before."""

    def update(self, in_contact: bool, goal_distance: float) -> None:
        """Take note of the end of a control step.

        Args:
            in_contact: Whether foot and floor touch now.
            goal_distance: Distance of the foot to the goal now.
        """
        if self.has_landed:
            return
        if not self.has_touched_floor:
            self.has_touched_floor = in_contact
        elif not self.has_left_floor:
            self.has_left_floor = not in_contact
        elif in_contact:
            self.has_landed = True
            self.landing_distance = goal_distance
