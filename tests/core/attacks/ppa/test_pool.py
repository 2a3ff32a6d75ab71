from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.attacks.ppa.config import CandidateConfig, PoolConfig
from smoothsweep.core.attacks.ppa.pool import best_first, decode_pool, sample_candidates, score_pool
from smoothsweep.core.attacks.ppa.pool_parts import make_pool_features
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import sample_latents

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "ppa.npz")


def golden(name):
    return torch.from_numpy(GOLDEN[name])


class GivenImages:
    """A prior whose latents are row numbers into given images; two w vectors, the first one counts."""

    z_dim, num_ws, w_dim = 7, 2, 1

    def __init__(self, images):
        self.images = images
        self.mapped = None

    def sample_z(self, n, seed):
        return sample_latents(n, self.z_dim, seed)

    def map(self, z, *, psi=1.0, cutoff=None):
        self.mapped = z, psi, cutoff
        first = torch.arange(len(z), dtype=torch.float32)[:, None]
        return torch.stack([first, first + 0.5], dim=1)

    def synthesize(self, w):
        return self.images[w[:, 0, 0].long()]


POOL = PoolConfig(size=30, crop=16, image_size=8)


@pytest.mark.parametrize(
    ("hflip", "clip", "suffix"),
    [(True, True, "hflip"), (False, True, "noflip"), (True, False, "hflip_noclip")],
)
def test_stage_1_matches_the_official_code(hflip, clip, suffix):
    prior, weight = GivenImages(golden("s1_raw_images")), golden("s1_classifier_weight")
    config = PoolConfig(size=30, crop=16, image_size=8, clip=clip)
    w, images = decode_pool(prior, config, device="cpu", batch_size=7)
    confidences = score_pool(lambda x: x.flatten(1) @ weight, images, hflip=hflip, batch_size=11, device="cpu")
    if clip:
        torch.testing.assert_close(confidences, golden(f"s1_confidences_{suffix}"), atol=1e-5, rtol=0)
    for target_class, expected in enumerate(golden(f"s1_selected_index_{suffix}")):
        w0, index, confidence = sample_candidates(confidences, w, target_class, CandidateConfig(candidates=5))
        assert torch.equal(index, expected)
        assert torch.equal(w0, expected.float()[:, None, None])
        assert torch.equal(confidence, confidences[expected, target_class])


def test_ranking_matches_the_official_one():
    confidences, w = golden("s1_rank_confidences"), torch.zeros(40, 1, 1)
    for target_class, expected in enumerate(golden("s1_rank_selected_index")):
        _, index, _ = sample_candidates(confidences, w, target_class, CandidateConfig(candidates=6))
        assert torch.equal(index, expected)


def test_the_pool_is_the_official_one():
    prior = GivenImages(golden("s1_raw_images"))
    decode_pool(prior, POOL, device="cpu", batch_size=30)
    z, psi, cutoff = prior.mapped
    torch.testing.assert_close(z[:4], golden("s1_z_seed42_first").float(), atol=1e-6, rtol=0)
    assert z.shape == (30, 7) and (psi, cutoff) == (0.5, 8)


def test_latents_of_the_paper_are_those_of_the_official_generator():
    head = sample_latents(2000, 512, 42)
    np.testing.assert_allclose(head[:2, :16], GOLDEN["s1_seed42_z2000_head"], atol=1e-12)
    for size in (2000, 5000):
        z = head if size == 2000 else sample_latents(size, 512, 42)
        stats = [z.sum(), z.std(), z[-1, -1], z[1000, 0]]
        np.testing.assert_allclose(stats, GOLDEN[f"s1_seed42_z{size}_stats"], rtol=1e-10)


@settings(deadline=None)
@given(scores=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")]), min_size=1, max_size=30))
def test_equal_scores_keep_their_order_and_nan_comes_last(scores):
    key = [(1, 0.0, i) if s != s else (0, -s, i) for i, s in enumerate(scores)]
    assert best_first(torch.tensor(scores)).tolist() == [i for _, _, i in sorted(key)]


def test_wrong_requests_are_input_errors():
    confidences, w = torch.rand(4, 3), torch.zeros(4, 1, 1)
    with pytest.raises(InputError, match="at most the pool's 4, got 5"):
        sample_candidates(confidences, w, 0, CandidateConfig(candidates=5))
    for target_class in (-1, 3):
        with pytest.raises(InputError, match=r"expected 0\.\.2"):
            sample_candidates(confidences, w, target_class, CandidateConfig(candidates=1))
    with pytest.raises(InputError, match="4 rows of confidences for 5 latents"):
        sample_candidates(confidences, torch.zeros(5, 1, 1), 0, CandidateConfig(candidates=1))


def test_the_mean_feature_of_the_pool_is_that_of_all_its_images():
    images = torch.randn(60, 3, 8, 8, generator=torch.Generator().manual_seed(2))  # more than a batch
    weight = torch.randn(3, 5, generator=torch.Generator().manual_seed(3))
    view = SimpleNamespace(
        execution=Execution(ExecutionConfig(), torch.device("cpu")),
        features=lambda batch: (batch.mean((2, 3)) @ weight, None),
    )
    made = make_pool_features({}, SimpleNamespace(parts={"pool": {"images": images}}), view, None)
    torch.testing.assert_close(made.tensors["mean"], (images.mean((2, 3)) @ weight).mean(0))
    assert made.facts == {"pool_images": 60.0}
