"""The paper's four tables of hyper-parameters: the columns of PPO, gSDE, SAC, PINK and GTrXL, by family of tasks.

There is no other source for these methods. Where all families have what a configuration has by itself, it is not
repeated here; the tests compare whole tables. `collect.environments` is not in the tables: a divisor of the samples
that leaves each environment whole episodes (or nearly). GTrXL's implementation is based on RLlib's, so sizes of its
network that no table gives are RLlib's defaults (width 64, which four heads of 16 make, 32 hidden units, a gate bias of
2 as in the GTrXL paper); what concerns PPO and is not in the tables is Stable-Baselines3's default.
"""

from __future__ import annotations

from typing import Any

Column = dict[str, dict[str, Any]]
"""Changes to a method's configuration for each family."""

TOTAL_STEPS = {
    "box_pushing_dense": 114_000_000,
    "box_pushing_sparse": 57_000_000,
    "hopper_jump": 48_000_000,
    "metaworld": 60_800_000,
}
"""Control steps of TCE's runs (authors' configurations); no source gives those of step-based runs."""

# ---------------------------------------------------------------------- PPO and gSDE

_PPO_BOX: dict[str, Any] = {
    "collect.steps": 48_000,
    "collect.environments": 40,
    "networks.policy_hidden": (512, 512),
    "networks.critic_hidden": (512, 512),
    "learn.batch_size": 1200,  # 40 minibatches
    "learn.discount": 1.0,
    "learn.critic_rate": 1e-4,
}
PPO: Column = {
    "box_pushing_dense": {**_PPO_BOX, "learn.policy_rate": 5e-5},
    "box_pushing_sparse": {**_PPO_BOX, "learn.policy_rate": 5e-4},
    "hopper_jump": {
        "collect.steps": 8000,
        "collect.environments": 16,
        "networks.policy_hidden": (32, 32),
        "networks.critic_hidden": (32, 32),
        "learn.batch_size": 200,  # 40 minibatches
        "learn.discount": 1.0,
        "learn.policy_rate": 3e-4,
        "learn.critic_rate": 3e-4,
    },
    "metaworld": {
        "collect.steps": 16_000,
        "collect.environments": 16,
        "networks.policy_hidden": (128, 128),
        "networks.critic_hidden": (128, 128),
        "learn.batch_size": 500,  # 32 minibatches
        "learn.discount": 0.99,
        "learn.policy_rate": 3e-4,
        "learn.critic_rate": 3e-4,
    },
}

_SDE: dict[str, Any] = {"networks.orthogonal": False, "networks.use_sde": True}
_SDE_BOX: dict[str, Any] = {
    **_SDE,
    "collect.steps": 80_000,
    "collect.environments": 40,
    "networks.policy_hidden": (256, 256),
    "networks.critic_hidden": (256, 256),
    "networks.initial_std": 0.05,
    "networks.sde_sample_freq": 4,
    "learn.batch_size": 2000,
    "learn.discount": 1.0,
    "learn.policy_rate": 1e-4,
    "learn.critic_rate": 1e-4,
    "learn.entropy_weight": 0.01,
}
SDE: Column = {
    "box_pushing_dense": _SDE_BOX,
    "box_pushing_sparse": _SDE_BOX,
    "hopper_jump": {
        **_SDE,
        "collect.steps": 8192,
        "collect.environments": 8,
        "normalize.observations": False,
        "normalize.rewards": False,  # the table's reward clip of 10 is idle then, as in Stable-Baselines3
        "networks.policy_hidden": (256, 256),
        "networks.critic_hidden": (256, 256),
        "networks.initial_std": 0.1,
        "networks.sde_sample_freq": 8,
        "learn.batch_size": 128,
        "learn.discount": 0.999,
        "learn.gae_lambda": 0.99,
        "learn.policy_rate": 9.5e-5,
        "learn.critic_rate": 9.5e-5,
        "learn.clip": 0.4,
        "learn.critic_clip": 0.4,
        "learn.final_clip": 0.0,  # lin_0.4
        "learn.entropy_weight": 0.0025,
    },
    "metaworld": {
        **_SDE,
        "collect.steps": 16_000,
        "collect.environments": 16,
        "networks.policy_hidden": (128, 128),
        "networks.critic_hidden": (128, 128),
        "networks.initial_std": 0.5,
        "networks.sde_sample_freq": 4,
        "learn.batch_size": 500,
        "learn.discount": 0.99,
        "learn.policy_rate": 1e-3,
        "learn.critic_rate": 1e-3,
        "learn.clip": 0.3,
        "learn.critic_clip": 0.3,
        "learn.final_clip": 0.01 / 0.3,  # lin_0.3, with the table's footnote: to 0.01 in the first quarter of the run
        "learn.clip_fall": 0.25,
    },
}

# ---------------------------------------------------------------------- SAC and PINK

_SAC_BOX: dict[str, Any] = {
    "collect.environments": 8,
    "networks.activation": "tanh",
    "learn.update_every": 8,
    "learn.gradient_steps": 1,  # the table's epochs, here and below
    "learn.batch_size": 512,
    "learn.buffer_size": 2_000_000,
    "learn.learning_starts": 100_000,
}
_SAC_ROUNDS: dict[str, Any] = {
    "learn.update_every": 1000,
    "learn.gradient_steps": 1000,
    "learn.batch_size": 256,
    "learn.buffer_size": 1_000_000,
    "learn.learning_starts": 10_000,
}
SAC: Column = {
    "box_pushing_dense": _SAC_BOX,
    "box_pushing_sparse": _SAC_BOX,
    "hopper_jump": {**_SAC_ROUNDS, "collect.environments": 4, "learn.policy_rate": 1e-4, "learn.critic_rate": 1e-4},
    "metaworld": {**_SAC_ROUNDS, "collect.environments": 2},
}
PINK: Column = {
    "box_pushing_dense": _SAC_BOX,
    "box_pushing_sparse": _SAC_BOX,
    "hopper_jump": {
        "collect.environments": 1,
        "networks.policy_hidden": (32, 32),
        "networks.critic_hidden": (32, 32),
        "learn.update_every": 1,
        "learn.gradient_steps": 1,
        "learn.batch_size": 256,
        "learn.buffer_size": 1_000_000,
        "learn.learning_starts": 100_000,
        "learn.policy_rate": 2e-4,
        "learn.critic_rate": 2e-4,
    },
    "metaworld": {**_SAC_BOX, "collect.environments": 4, "networks.activation": "relu", "learn.update_every": 4},
}

# ---------------------------------------------------------------------- GTrXL

_GTRXL: dict[str, Any] = {
    "network.memory_length": 50,  # not in the tables: RLlib's default
    "learn.critic_clip_of": "error",  # as RLlib means it
}
_GTRXL_BOX: dict[str, Any] = {
    **_GTRXL,
    "collect.steps": 8000,
    "collect.reward_scale": 0.1,  # the row "normalized rewards", here and below
    "learn.epochs": 5,
    "learn.batch_size": 1000,
    "learn.rate": 2e-4,
    "learn.discount": 0.99,
    "learn.clip": 0.1,
    "learn.critic_clip": 10.0,
}
GTRXL: Column = {
    "box_pushing_dense": _GTRXL_BOX,
    "box_pushing_sparse": {**_GTRXL_BOX, "learn.discount": 1.0},
    "hopper_jump": {
        **_GTRXL,
        "collect.steps": 10_000,
        "collect.reward_scale": 1.0,
        "learn.epochs": 10,
        "learn.batch_size": 1024,
        "learn.rate": 5e-4,
        "learn.discount": 1.0,
        "learn.clip": 0.2,
        "learn.critic_clip": 1.0,
    },
    "metaworld": {
        **_GTRXL_BOX,
        "collect.steps": 19_000,
        "collect.reward_scale": 0.05,
        "learn.batch_size": 1024,
    },
}
