"""Draw the film strips of the README: an episode of each agent of the zoo, as a row of pictures.

From the project's root: python -m docs.make_strips
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from top_erl import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.experiment.zoo import zoo_names

HERE = Path(__file__).parent
SEED = 3
"""Chooses the contexts that are shown."""
PICTURES = 6
HEIGHT = 200
"""Pixels of a picture, all agents alike."""
GAP = 4


def frames(name: str) -> list[NDArray[np.uint8]]:
    """Pictures of an episode, evenly in time, the last one at its end."""
    with Agent.load(f"zoo/{name}") as agent:
        learner, horizon = agent.training.learner, agent.training.spec.horizon
        assert isinstance(learner, EpisodicLearner)
        film = learner.film(SEED, max(1, horizon // 100))
    return [film[index] for index in np.linspace(0, len(film) - 1, PICTURES).round().astype(int)]


def strip(pictures: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Pictures side by side, [HEIGHT, width, 3]."""
    from PIL import Image

    row: list[NDArray[np.uint8]] = []
    for picture in pictures:
        side = min(picture.shape[:2])  # the middle, so that all are squares
        top, left = (picture.shape[0] - side) // 2, (picture.shape[1] - side) // 2
        square = Image.fromarray(picture[top : top + side, left : left + side]).resize((HEIGHT, HEIGHT))
        row += [np.asarray(square), np.full((HEIGHT, GAP, 3), 255, dtype=np.uint8)]
    return np.concatenate(row[:-1], axis=1)


def main() -> None:
    """Draw all of them, one below the other."""
    from PIL import Image

    rows: list[NDArray[np.uint8]] = []
    for name in zoo_names():
        row = strip(frames(name))
        rows += [row, np.full((GAP, row.shape[1], 3), 255, dtype=np.uint8)]
    Image.fromarray(np.concatenate(rows[:-1])).save(HERE / "strips.png", optimize=True)


if __name__ == "__main__":
    main()
