"""Box Pushing: an arm of seven joints pushes a walled box over a table to a target pose, with a rod in its hand.

The rod stands inside the box, so it can push all four walls. Position and orientation of the box count, at every step
(`Dense`) or only at the end (`Sparse`). The simulator is MuJoCo; the scene is `scene.xml`.

`task.py` plays whole episodes, `env.py` is the Gymnasium step environment that it plays them in.
"""
