"""The plain critic under dropout, `torch.compile`, autocast, and on a device without numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from top_erl.models import Sequences, TransformerCritic
from top_erl.models.bf16 import torch_is_safe

from .critics import ACTION, STATE, plain_critic, sequences, small_config


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@torch.no_grad()
def test_dropout_acts_in_train_mode_only() -> None:
    critic, given = plain_critic(dropout=0.3), sequences()
    assert torch.equal(critic(given), critic(given))
    critic.train()
    assert not torch.allclose(critic(given), critic(given))
    torch.manual_seed(3)
    first = critic(given)
    torch.manual_seed(3)
    assert torch.equal(critic(given), first)


@torch.no_grad()
def test_dropout_reaches_embedding_attention_residual_and_mlp(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    dropout, attention = nn.functional.dropout, nn.functional.scaled_dot_product_attention

    def counted(tokens: Tensor, rate: float, training: bool = True) -> Tensor:
        calls.append(rate if training else 0.0)
        return dropout(tokens, rate, training)

    def counted_attention(*args: Tensor, dropout_p: float, is_causal: bool) -> Tensor:
        calls.append(dropout_p)
        return attention(*args, dropout_p=dropout_p, is_causal=is_causal)

    monkeypatch.setattr(nn.functional, "dropout", counted)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", counted_attention)
    critic = plain_critic(dropout=0.3)
    critic.train()(sequences())
    assert calls == [0.3] * (1 + 2 * 3)  # the embedding, and three in each of two blocks
    calls.clear()
    critic.eval()(sequences())
    assert set(calls) == {0.0}


def test_dropout_trains() -> None:
    critic = plain_critic(dropout=0.3).train()
    critic(sequences()).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in critic.parameters())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_compiled_in_one_graph_it_is_the_same(dropout: float) -> None:
    critic, given = plain_critic(dropout=dropout).train(), sequences(tail=2)
    compiled = torch.compile(critic, backend="eager", fullgraph=True)
    results = []
    for function in (critic, compiled):
        torch.manual_seed(1)
        critic.zero_grad()
        values = function(given)
        values.square().sum().backward()
        results.append([values.detach(), *(parameter.grad.clone() for parameter in critic.parameters())])
    for own, other in zip(*results, strict=True):
        torch.testing.assert_close(own, other)


def test_every_question_works_on_another_device() -> None:
    """Shapes only: the device `meta` has no numbers. Nothing may be copied there from the CPU."""
    critic, given = TransformerCritic(small_config(), STATE, ACTION).to("meta"), sequences(dtype=torch.float32)
    given = Sequences(*(getattr(given, name).to("meta") for name in ("states", "starts", "actions", "counts")))
    assert critic(given).shape == (3, 3, 7)
    assert critic.action_values(given).shape == (3, 3)
    last, state = critic.target_values(given, torch.arange(4, device="meta"))
    assert (last.shape, state.shape, last.device.type) == ((3, 3), (3, 4), "meta")


@pytest.mark.skipif(not torch_is_safe(torch.device("cpu")), reason="may end the process on this processor")
@pytest.mark.parametrize("by_user", [True, False], ids=["autocast", "use_bf16"])
def test_bfloat16_is_close_and_gradients_stay_float32(by_user: bool) -> None:
    critic, given = plain_critic(width=64, heads=4).float(), sequences(dtype=torch.float32)
    exact = critic(given)
    gradients = torch.autograd.grad(exact.square().mean(), list(critic.parameters()))
    if by_user:
        with torch.autocast("cpu", torch.bfloat16):
            values = critic(given)
    else:
        critic.use_bf16()
        values = critic(given)
        assert values.dtype == torch.float32  # the head is not in bfloat16
    assert 0 < (values - exact).norm() / exact.norm() < 0.02
    for own, other in zip(
        torch.autograd.grad(values.float().square().mean(), list(critic.parameters())), gradients, strict=True
    ):
        assert own.dtype == torch.float32
        assert (own - other).norm() / other.norm() < 0.05
