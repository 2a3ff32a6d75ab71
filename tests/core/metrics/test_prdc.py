from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics import prdc as module
from smoothsweep.core.metrics.prdc import DEFINITIONS, prdc, prdc_per_class

GOLDEN = {
    name: torch.from_numpy(np.asarray(array))
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "fidelity.npz").items()
    if name.startswith("prdc_")
}
SETS = tuple(GOLDEN[f"prdc_{name}"] for name in ("real", "real_targets", "fake", "fake_targets"))
REAL, _, FAKE, _ = SETS


def table(measures):
    return [measures.precision, measures.recall, measures.density, measures.coverage]


def rows(n, d, seed, scale=1.0):
    return scale * torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("k", [3, 5])
def test_equals_the_official_measures(k):
    """The official code averages in float32."""
    ours = prdc_per_class(*SETS, definition="official", k=k)
    assert ours.classes.tolist() == [0, 1, 2] and ours.excluded == ()
    np.testing.assert_allclose(ours.values, GOLDEN[f"prdc_per_class_k{k}"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(table(ours.mean), GOLDEN[f"prdc_class_mean_k{k}"], rtol=0, atol=2e-7)
    pooled = prdc(REAL, FAKE, definition="official", k=k)
    np.testing.assert_allclose(table(pooled), GOLDEN[f"prdc_pooled_k{k}"], rtol=0, atol=2e-7)
    # What the released script logs where its targets are the word `all`: the pooled sets and classes 1 and 2, averaged.
    released = np.mean([table(pooled), *np.asarray(ours.values)[1:]], axis=0)
    np.testing.assert_allclose(released, GOLDEN[f"prdc_as_released_3classes_k{k}"], rtol=0, atol=2e-7)


@pytest.mark.parametrize("k", [3, 5])
def test_equals_the_standard_measures(k):
    ours = prdc_per_class(*SETS, definition="standard", k=k)
    np.testing.assert_allclose(ours.values, GOLDEN[f"prdc_standard_definition_per_class_k{k}"], rtol=0, atol=1e-12)


def by_definition(real, fake, k, definition):
    """Balls and their contents, spelled out."""
    radius = {}
    for name, own in (("real", real), ("fake", fake)):
        between = (own[:, None] - own[None]).norm(dim=2)
        radius[name] = between.sort(dim=1).values[:, k]
    between = (fake[:, None] - real[None]).norm(dim=2)
    slack = 1e-7
    inside_real = between <= radius["real"] + slack
    inside_fake = between <= radius["fake"][:, None] + slack
    if definition == "standard":
        precision, recall = inside_real.any(1), inside_fake.any(0)
    else:
        precision = inside_real[torch.arange(len(fake)), between.argmin(1)]
        recall = inside_fake[between.argmin(0), torch.arange(len(real))]
    count = len(real) if definition == "official" else len(fake)
    density = inside_real.sum().item() / (k * count)
    means = [x.double().mean().item() for x in (precision, recall, inside_real.any(0))]
    return [means[0], means[1], density, means[2]]


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999),
    n=st.integers(6, 25),
    m=st.integers(6, 25),
    k=st.integers(1, 5),
    chunk=st.integers(1, 200),
    definition=st.sampled_from(DEFINITIONS),
)
def test_chunks_and_large_offsets_change_nothing(seed, n, m, k, chunk, definition):
    real, fake = rows(n, 3, seed), rows(m, 3, seed + 1, 1.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ELEMENTS", chunk)
        ours = table(prdc(real + 1000, fake + 1000, definition=definition, k=k))
    np.testing.assert_allclose(ours, by_definition(real, fake, k, definition), rtol=0, atol=1e-12)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_copies_lie_on_the_surface_of_balls_and_count(definition):
    real = rows(30, 40, 0) + 50
    ours = prdc(real, real.clone(), definition=definition, k=3)
    assert (ours.precision, ours.recall, ours.coverage) == (1, 1, 1)
    assert ours.density == pytest.approx((30 * 4 + sum_of_extra_ties(real, 3)) / (3 * 30))
    same = torch.ones(8, 4)  # all radii are 0
    assert table(prdc(same, same, definition=definition, k=3)) == pytest.approx([1, 1, 8 / 3, 1])


def sum_of_extra_ties(real, k):
    between = (real[:, None] - real[None]).norm(dim=2).sort(dim=1).values
    return int(((between - between[:, k : k + 1]).abs() < 1e-9).sum()) - len(real)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_far_away_fakes_score_nothing(definition):
    assert table(prdc(rows(20, 4, 0), rows(20, 4, 1) + 1e3, definition=definition)) == [0, 0, 0, 0]


def test_density_differs_by_the_ratio_of_the_sets_and_coverage_not_at_all():
    real, fake = rows(60, 4, 0), rows(20, 4, 1)
    official, standard = (prdc(real, fake, definition=d) for d in DEFINITIONS)
    assert official.density == pytest.approx(standard.density * 20 / 60)
    assert official.coverage == standard.coverage
    assert official.precision <= standard.precision and official.recall <= standard.recall


def test_small_classes_are_left_out_and_named():
    real, labels_real, fake, labels_fake = SETS
    few = torch.cat([fake[labels_fake == 0][:3], fake[labels_fake == 1]])
    few_labels = torch.cat([torch.zeros(3), torch.ones(30)]).long()
    ours = prdc_per_class(real, labels_real, few, few_labels, definition="official")
    assert ours.excluded == (0,) and ours.classes.tolist() == [1]
    np.testing.assert_allclose(table(ours.mean), GOLDEN["prdc_per_class_k3"][1], rtol=0, atol=2e-7)
    with pytest.raises(InputError, match="classes with at least 41 real and fake images, got none"):
        prdc_per_class(*SETS, definition="official", k=40)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="expected one of official, standard, got 'usual'"):
        prdc(REAL, FAKE, definition="usual")
    with pytest.raises(InputError, match="k: expected at least 1, got 0"):
        prdc_per_class(*SETS, definition="official", k=0)
    with pytest.raises(InputError, match="at least 4 real and fake images, got 98 and 3"):
        prdc(REAL, FAKE[:3], definition="standard")
    with pytest.raises(ValueError, match=r"got \(98, 12\) and \(90, 3\)"):
        prdc(REAL, FAKE[:, :3], definition="standard")
    with pytest.raises(ValueError, match="NaN or infinity"):
        prdc(REAL, FAKE * torch.nan, definition="standard")
