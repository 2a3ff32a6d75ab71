"""A made target that computes row by row: no kernel knows of another row, unless it is told to."""

import torch


class Rows:
    """Images [n, 3, side, side] -> logits [n, classes].

    seen: rows of every pass; blind: bool of the images' means for which it gives no numbers; coupled: how much its
    answer to an image depends on what it is shown beside it.
    """

    def __init__(self, classes, side, *, seed, blind=None, coupled=0.0):
        source = torch.Generator().manual_seed(seed)
        self.weight = torch.randn(classes, 3 * side * side, generator=source) / 4
        self.seen, self.blind, self.coupled = [], blind, coupled

    def __call__(self, images):
        self.seen.append(len(images))
        flat = images.contiguous().flatten(1)
        logits = (flat[:, None] * self.weight).sum(2).tanh() * 4
        if self.coupled:
            logits = logits + self.coupled * logits.mean(0)
        return logits if self.blind is None else logits.where(~self.blind(flat.mean(1))[:, None], torch.nan)
