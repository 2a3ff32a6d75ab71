import pytest
import torch
from torchvision.transforms import functional as TF

from smoothsweep.core.data.augmentation import Augmentation, _pixel_box, draw_augmentation
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import Batch, network_input, rank_batches

SHARED = Augmentation.none().replace(crop_scale=(0.8, 1.0), flip=0.5, shared=True)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(images, augmentation=None, seed=0):
    draw = draw_augmentation(len(images), augmentation, generator(seed)) if augmentation else None
    return Batch(images=images, labels=torch.zeros(len(images), dtype=torch.int64), draw=draw, weight=1.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_unclipped_floats_are_cropped_then_mirrored_then_clipped(seed, dtype):
    """The published order of knowledge extraction: crop, mirror, clip, the same for the whole batch."""
    images = (2 * torch.randn(5, 3, 24, 24, generator=generator(9))).to(dtype)
    got = network_input(batch(images, SHARED, seed), 24)
    draw = draw_augmentation(5, SHARED, generator(seed))
    box = torch.stack(_pixel_box(draw, 24, 24, images.device), dim=1).int()
    assert (box == box[0]).all() and (draw.flip == draw.flip[0]).all()
    want = TF.resized_crop(images.float(), *box[0].tolist(), [24, 24], antialias=True)
    want = (want.flip(3) if draw.flip[0] else want).clamp(-1, 1)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    assert got.is_contiguous(memory_format=torch.channels_last) and got.dtype == torch.float32


def test_floats_of_8_bits_give_what_the_bytes_give():
    images = torch.randint(0, 256, (6, 3, 20, 20), generator=generator()).to(torch.uint8)
    for augmentation in (None, SHARED, Augmentation()):
        ours = network_input(batch(images.float().div(127.5).sub(1), augmentation), 24)
        torch.testing.assert_close(ours, network_input(batch(images, augmentation), 24), atol=1e-4, rtol=0)


def test_a_shared_draw_is_new_in_every_step_and_the_same_on_every_rank():
    images = torch.rand(1, 3, 64, 64, generator=generator()).expand(40, -1, -1, -1) * 2 - 1
    recipe = TrainingRecipe(batch_size=10, image_size=32, augmentation=SHARED)
    labels, inputs = torch.zeros(40, dtype=torch.int64), []
    for rank in (0, 1):
        key = {"seed": 0, "epoch": 0, "rank": rank, "world_size": 2}
        inputs.append([network_input(b, 32) for b in rank_batches(images, labels, recipe, **key)])
    for first, second in zip(*inputs, strict=True):
        everything = torch.cat([first, second])
        assert len(everything) == 10 and (everything == everything[0]).all()
    steps = [part[0] for part in inputs[0]]
    assert not any(torch.equal(steps[i], steps[j]) for i in range(4) for j in range(i))
