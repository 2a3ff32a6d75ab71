import pytest
import torch

from smoothsweep.core.defenses.base import (
    Defense,
    MixedLabels,
    SmoothedLoss,
    hard_labels,
    over_outputs,
    smoothed_cross_entropy,
)
from smoothsweep.core.models.classifiers import LogitsWithAuxiliary, build_classifier

LOGITS = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 3, 4, 0])


@pytest.mark.parametrize("alpha", [0.1, 0.0, -0.05])
def test_plain_training_is_smoothed_cross_entropy_to_the_bit(alpha, tools):
    model = build_classifier("resnet_small", 4, seed=0, protocol="clean").train()
    images, labels = tools.colours(per_class=2)
    result = tools.take_step(Defense(), model, images, labels, alpha=alpha)
    assert torch.equal(result.loss, smoothed_cross_entropy(result.logits, labels, alpha))
    assert result.facts == {}


@pytest.mark.parametrize("alpha", [0.1, -0.05])
def test_mixed_labels_cost_what_their_soft_target_costs(alpha):
    share = torch.linspace(0, 1, 6)
    mixed = MixedLabels(first=LABELS, second=LABELS.flip(0), share=share)
    criterion = SmoothedLoss(alpha=alpha)
    one, other = criterion.targets(LABELS, 5), criterion.targets(LABELS.flip(0), 5)
    target = share[:, None] * one + (1 - share[:, None]) * other
    expected = -(target * LOGITS.log_softmax(1)).sum(1)
    torch.testing.assert_close(criterion(LOGITS, mixed), expected)
    assert mixed.dominant.tolist() == [0, 4, 3, 3, 4, 0]
    with pytest.raises(ValueError, match="one class per image"):
        hard_labels(mixed)


def test_an_auxiliary_head_is_added_in_full():
    losses, logits = over_outputs(LogitsWithAuxiliary(LOGITS, 2 * LOGITS), lambda z: z.sum(1))
    torch.testing.assert_close(losses, 3 * LOGITS.sum(1))
    assert logits is LOGITS
