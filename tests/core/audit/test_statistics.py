"""The statistics of an audit in memory are those of a sweep's page, number by number."""

import numpy as np
import pandas as pd
import pytest
import torch

from smoothsweep.core.audit.statistics import Tally
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.accuracy import class_means
from smoothsweep.orchestrator.result.estimates import Sample, Settings, compare, estimate

CLASSES, EACH = (0, 2, 3, 7), 4


def hits_of(share, seeds, start):
    generator = torch.Generator().manual_seed(start)
    return [torch.rand(len(CLASSES) * EACH, generator=generator) < share for _ in range(seeds)]


def samples(hits_by_seed, labels):
    found = {}
    for seed, hits in enumerate(hits_by_seed):
        classes, shares = class_means(hits, labels)
        by_class = pd.Series(shares.numpy(), index=classes.tolist())
        found[seed] = Sample(value=float(hits.double().mean()), by_class=by_class, images=len(labels))
    return found


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_leak_and_difference_are_those_of_a_sweep(seeds, share):
    labels = torch.tensor(CLASSES).repeat_interleave(EACH)
    mine, theirs = hits_of(share, seeds, 1), hits_of(0.1, seeds, 2)
    tally, control = Tally.of(mine, labels), Tally.of(theirs, labels)
    assert tally.classes == CLASSES and tally.shares.shape == (seeds, len(CLASSES))
    leak, page = tally.leak, estimate(metric_of("attack_acc1"), samples(mine, labels), Settings())
    assert (leak.mean, leak.low, leak.high) == pytest.approx((page.mean, page.low, page.high))
    pair = tally.beyond(control, among=3)
    beyond = compare(metric_of("attack_acc1"), samples(mine, labels), samples(theirs, labels), Settings(), among=3)
    assert pair.difference == pytest.approx(beyond.difference) and pair.verdict == beyond.verdict
    ends = [np.nan if end is None else end for end in (pair.low, pair.high)]
    assert ends == pytest.approx([beyond.low, beyond.high], nan_ok=True)
