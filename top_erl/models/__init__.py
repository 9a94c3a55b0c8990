"""Neural networks: the Gaussian policy, the transformer critic, the state-value network."""

from top_erl.models.critic import CriticConfig, CriticEnsemble, TransformerCritic
from top_erl.models.policy import GaussianPolicy, PolicyConfig
from top_erl.models.value import RunningNormalizer, ValueConfig, ValueNetwork

__all__ = [
    "CriticConfig",
    "CriticEnsemble",
    "GaussianPolicy",
    "PolicyConfig",
    "RunningNormalizer",
    "TransformerCritic",
    "ValueConfig",
    "ValueNetwork",
]
