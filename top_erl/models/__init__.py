"""Neural networks: the Gaussian policy and the transformer critic."""

from top_erl.models.critic import CriticConfig, CriticEnsemble, TransformerCritic
from top_erl.models.policy import GaussianPolicy, PolicyConfig

__all__ = ["CriticConfig", "CriticEnsemble", "GaussianPolicy", "PolicyConfig", "TransformerCritic"]
