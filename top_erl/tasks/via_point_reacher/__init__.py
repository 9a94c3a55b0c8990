"""The built-in task: a planar arm that passes one point and reaches another."""
