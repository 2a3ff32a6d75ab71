import torch

from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.regularisers import LogitClipping


def test_only_long_logits_are_shortened_and_no_prediction_changes(tools):
    model, plain = tools.prepared(LogitClipping(norm=1.0)).eval(), tools.prepared(Defense()).eval()
    features = torch.randn(50, 128, generator=tools.generator())
    clipped, free = model.head(features), plain.head(features)
    length = free.norm(dim=1)
    assert (length > 1).any() and (length < 1).any()
    torch.testing.assert_close(clipped.norm(dim=1), length.clamp(max=1))
    assert torch.equal(clipped[length <= 1], free[length <= 1])
    assert torch.equal(clipped.argmax(1), free.argmax(1))


def test_negative_smoothing_can_no_longer_drive_logits_apart_without_end(tools):
    """The gap between two logits is at most sqrt(2) times the length."""
    images, _ = tools.colours(seed=1)
    kinds = (Defense(), LogitClipping(norm=2.0))
    plain, clipped = (tools.train(kind, epochs=4, alpha=-0.5, lr=0.01)[0](images) for kind in kinds)
    gaps = [(logits.max(1).values - logits.min(1).values).max().item() for logits in (plain, clipped)]
    assert gaps[0] > 2 * gaps[1] and gaps[1] <= 2 * 2**0.5 + 1e-4
