"""Neural networks: the Gaussian policy, the transformer critic, the state-value network."""

from top_erl.models.backend import make_critics
from top_erl.models.ensemble import CriticEnsemble
from top_erl.models.policy import GaussianPolicy, PolicyConfig
from top_erl.models.transformer import Block, CriticConfig, Sequences, TransformerCritic
from top_erl.models.value import RunningNormalizer, ValueConfig, ValueNetwork

__all__ = [
    "Block",
    "CriticConfig",
    "CriticEnsemble",
    "GaussianPolicy",
    "PolicyConfig",
    "RunningNormalizer",
    "Sequences",
    "TransformerCritic",
    "ValueConfig",
    "ValueNetwork",
    "make_critics",
]
