"""A method of one's own: black-box search that compares episodes by the rank of their returns, and has no critic."""

from dataclasses import dataclass, replace

from top_erl.algorithms.bbrl import BBRL_COV, BbrlRun
from top_erl.algorithms.bbrl.learner import BbrlLearner
from top_erl.algorithms.on_policy.learner import Episodes, normalized
from top_erl.algorithms.registry import register_method
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stats import named_numbers


class RankLearner(BbrlLearner):
    """The best of B episodes has advantage B - 1, the worst 0, before they are normalised."""

    def learn(self, episodes: Episodes, iteration: int) -> dict[str, float]:
        returns = episodes.reward.sum(-1)  # [B]
        advantage = normalized(returns.argsort().argsort().to(returns.dtype))
        policy = self.fit_policy(episodes, lambda pi: pi.log_prob(episodes.params), advantage, iteration)
        return named_numbers(None, policy)


@dataclass(frozen=True)
class RankRun(BbrlRun):
    method: str = "rank"  # type: ignore[assignment]


def build(config: RankRun, setup: Setup) -> RankLearner:
    return RankLearner(config.algorithm, setup)


register_method(replace(BBRL_COV, name="rank", description="Search by ranks.", run=RankRun, build=build))
