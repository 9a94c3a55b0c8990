"""Neural networks: the Gaussian policy and the transformer critic."""

from top_erl.models.critic import CriticConfig, TransformerCritic
from top_erl.models.policy import GaussianPolicy, PolicyConfig

__all__ = ["CriticConfig", "GaussianPolicy", "PolicyConfig", "TransformerCritic"]
