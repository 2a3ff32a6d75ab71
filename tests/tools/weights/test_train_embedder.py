"""The training of the embedder that is shipped: fresh public people, no private one, the same weights every time."""

import torch
from safetensors.torch import load_file

from smoothsweep.core.models.embedders import SyntheticEmbedder, load_embedder
from tools.weights.train_embedder import (
    EmbedderRecipe,
    augment,
    discriminant,
    draw_batch,
    eigenfaces_of,
    judge_accuracy,
    main,
    train,
)

TINY = EmbedderRecipe(
    rounds=2, people=8, eigenface_people=50, eigenfaces=45, calibration_people=20, calibration_images=3
)


def test_look_alikes_are_named_from_other_pictures():
    assert judge_accuracy(load_embedder("synthetic"), spread=0.4, identities=20, seed=7) >= 0.93


def test_discriminant_scatters_pictures_equally_and_mutes_noise():
    generator = torch.Generator().manual_seed(0)
    people = torch.randn(3000, 1, 4, dtype=torch.float64, generator=generator) * torch.tensor([3.0, 1.0, 0.5, 0.0])
    pictures = torch.randn(3000, 5, 4, dtype=torch.float64, generator=generator) * torch.tensor([1.0, 2.0, 0.5, 0.7])
    turned = (people + pictures) @ discriminant(people + pictures).T
    means = turned.mean(dim=1, keepdim=True)
    inner = (turned - means).flatten(0, 1)
    within = inner.T @ inner / (3000 * 4)
    # An axis on which people differ v times as much as pictures is scaled by the root of v / (1 + v).
    ratios = torch.tensor([0.0, 1 / 4, 1.0, 9.0], dtype=torch.float64)
    assert torch.allclose(within, torch.diag(ratios / (1 + ratios)), atol=0.04)
    assert torch.allclose(
        torch.cov(means.squeeze(1).T).diagonal() - within.diagonal() / 5, ratios**2 / (1 + ratios), rtol=0.1, atol=0.02
    )


def test_batches_are_public_fresh_and_reproducible():
    (images, traits), again, (others, other_traits) = (draw_batch(TINY, index) for index in (0, 0, 1))
    assert torch.equal(images, again[0]) and torch.equal(traits, again[1]) and not torch.equal(images, others)
    assert images.shape == (8, 3, 64, 64) and images.abs().max() <= 1
    # The spread changes from batch to batch: 1, 0.6, 1, ...
    assert traits.square().mean().sqrt() > 1.3 * other_traits.square().mean().sqrt()


def test_augmentation_keeps_shape_and_range_and_follows_its_generator():
    basis = eigenfaces_of(TINY)
    images, _ = draw_batch(TINY, 0)
    before = images.clone()
    once, twice = (augment(images, basis, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(once, twice) and torch.equal(images, before)
    assert once.shape == images.shape and once.abs().max() <= 1


def test_training_is_reproducible_and_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    first, second = (train(TINY, report=lambda line: None).state_dict() for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_command_writes_a_file_that_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tools.weights.train_embedder.train", lambda recipe: SyntheticEmbedder().eval())
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr("tools.weights.train_embedder.judge_accuracy", lambda embedder, spread: 0.5)
    main(["--out", str(tmp_path / "new" / "e.safetensors"), "--seed", "3"])
    assert "0.5" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["e.safetensors"]
    load_embedder("synthetic", tmp_path / "new" / "e.safetensors")
    assert load_file(tmp_path / "new" / "e.safetensors")["trunk.0.weight"].shape == (16, 3, 5, 5)
