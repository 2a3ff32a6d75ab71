"""Stages left out: how many images at once, and in which order."""

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.ppa.config import SelectConfig
from smoothsweep.core.attacks.ppa.variants import select_by_confidence


class Pixels(nn.Module):
    """In the place of a prior: a latent [1, 3] is the colour of its picture. Counts what is asked of it at once."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def synthesize(self, w):
        self.asked.append(len(w))
        return w.flatten(1)[:, :, None, None].expand(-1, -1, 4, 4)


@pytest.mark.parametrize(("latents", "asked"), [(25, [25]), (26, [13, 13]), (51, [17, 17, 17])])
def test_the_surest_images_come_first_and_at_most_25_are_looked_at_together(latents, asked):
    w = torch.randn(latents, 1, 3, generator=torch.Generator().manual_seed(0))
    prior, target = Pixels(), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    config = SelectConfig(selected=4, selection_repeats=1)
    found = select_by_confidence(prior, target, w, 1, config, transform=lambda images: images, device="cpu")
    assert prior.asked == asked
    confidences = w[:, 0].softmax(1)[:, 1]
    best = confidences.sort(descending=True)
    torch.testing.assert_close(found.all_scores, confidences)
    assert torch.equal(found.order, best.indices[:4]) and torch.equal(found.w, w[best.indices[:4]])
    torch.testing.assert_close(found.scores, best.values[:4])
