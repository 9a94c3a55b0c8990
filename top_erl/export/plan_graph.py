"""The graph of a policy that replans: its next plan, wherever in the episode it is made.

    observation, time, position, velocity ─► standardise ─► network ─► parameters ─┐
    position, velocity, origin ────────────────────────────────────────────────────┴─► Psi of this plan ─► reference

`position` and `velocity` are those of the reference that is being tracked (at the start of an episode the measured
ones), `origin` is the position at the episode's start, and `plan` says which plan it is: 0 at the start, 1 after the
first h steps. Each plan has matrices of its own, which are looked up. A reference has as many times as the episode;
those after the episode's end repeat its last position, without velocity.

Axes: `B` plans, `K` plans of an episode, `T` times, `D` degrees of freedom, `G` parameters of one, `E = G + 3` with
position, velocity and origin.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.export.operations import Graph, network, selected
from top_erl.primitives.plans import PlanMovements
from top_erl.rollout.replanning import ReplanningCollector
from top_erl.runtime.backends import INDEX, INPUTS, ORIGIN, OUTPUTS, PLAN_TIMES


def plan_operations(graph: Graph, learner: EpisodicLearner, collector: ReplanningCollector) -> None:
    """Add the operations of a policy that replans."""
    spec, policy = collector.spec, learner.policy
    graph.inputs = (*INPUTS, ORIGIN, INDEX)
    starts = torch.arange(0, spec.horizon, collector.every)  # [K]
    times = graph.constant(PLAN_TIMES, starts.double().unsqueeze(-1) * spec.dt)
    time = graph.add("Gather", "time", times, INDEX, axis=0)  # [B, 1]
    reference = INPUTS[1:] if collector.reference_input else ()
    state = graph.add("Concat", "state", INPUTS[0], time, *reference, axis=1)
    entries = selected(policy, spec.observation_dim + 1 + collector.plan_inputs)
    seen = graph.add("Gather", "context", state, graph.constant("context_entries", entries), axis=1)
    params = network(graph, policy, seen)
    _movements(graph, collector.movements, params, starts)


def _movements(graph: Graph, movements: PlanMovements, params: str, starts: Tensor) -> None:
    """Desired positions and velocities, [B, T, D], by the matrices of the plans that are asked for."""
    dof, columns = movements.primitive.num_dof, movements.primitive.num_columns
    matrices = torch.stack([_matrix(movements, start) for start in starts.tolist()])  # [K, T, 2, E]
    shape = graph.constant("parameters_shape", np.array([-1, dof, columns]))
    one = graph.constant("state_shape", np.array([-1, dof, 1]))
    parts = [graph.add("Reshape", "parameters", params, shape)]  # [B, D, G]
    parts += [graph.add("Reshape", f"initial_{name}", name, one) for name in (*INPUTS[1:], ORIGIN)]  # [B, D, 1] each
    coefficients = graph.add("Concat", "coefficients", *parts, axis=2)  # [B, D, E]
    for number, name in enumerate(OUTPUTS):
        table = graph.constant(f"{name}_bases", matrices[:, :, number].mT)  # [K, E, T]
        basis = graph.add("Gather", f"{name}_basis", table, INDEX, axis=0)  # [B, E, T]
        moved = graph.add("MatMul", f"{name}_by_dof", coefficients, basis)  # [B, D, T]
        graph.add("Transpose", name, moved, perm=[0, 2, 1])


def _matrix(movements: PlanMovements, start: int) -> Tensor:
    """The matrix of the plan that starts at a control step, float64, [T, 2, E]."""
    primitive = movements.primitive
    basis = movements.basis(start, torch.arange(start, movements.horizon, dtype=torch.float64))  # [T - start, 2, G + 2]
    state, origin = basis[..., -2:].clone(), torch.zeros_like(basis[..., :1])
    if primitive.relative_goal:
        goal = basis[..., primitive.num_columns - 1]
        if movements.needs_origin:
            origin[..., 0] = goal
        else:
            state[..., 0] += goal  # it counts from the plan's start
    matrix = torch.cat((primitive.design(basis), state, origin), dim=-1)
    held = matrix[-1:].clone()
    held[:, 1] = 0.0  # after the end it stands
    return torch.cat((matrix, held.expand(start, -1, -1)))
