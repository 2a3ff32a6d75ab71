import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.augmentation import Augmentation, apply_augmentation, draw_augmentation


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 12), seed=st.integers(0, 2**31), flip=st.sampled_from([0.0, 0.5]))
def test_a_shared_draw_is_one_images_draw_for_all(n, seed, flip):
    augmentation = Augmentation(flip=flip, shared=True)
    shared = draw_augmentation(n, augmentation, generator(seed))
    single = draw_augmentation(1, augmentation.replace(shared=False), generator(seed))
    assert len(shared) == n and (shared.flip is None) == (flip == 0.0)
    for name in ("box", "brightness", "contrast", "saturation", "hue", "flip"):
        value = getattr(shared, name)
        assert value is None or (len(value) == n and (value == getattr(single, name)).all())


def test_a_batch_augmented_by_a_shared_draw_keeps_its_images_apart():
    images = torch.rand(4, 3, 24, 24, generator=generator())
    draw = draw_augmentation(4, Augmentation(shared=True), generator(1))
    whole = apply_augmentation(images, draw, out_size=20)
    for i in range(4):
        one = draw_augmentation(1, Augmentation(), generator(1))
        torch.testing.assert_close(whole[i : i + 1], apply_augmentation(images[i : i + 1], one, out_size=20))


def test_shared_draws_vary_as_single_ones_do():
    source = generator()
    draws = [draw_augmentation(3, Augmentation(crop_scale=(0.8, 1.0), shared=True), source) for _ in range(400)]
    area = torch.stack([(d.box[0, 0] * d.box[0, 1]) for d in draws])
    assert 0.8 <= area.min() < 0.81 and 0.99 < area.max() <= 1
    assert 0.4 < torch.stack([d.flip[0] for d in draws]).float().mean() < 0.6
