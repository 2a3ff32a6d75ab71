import threading

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import place_images, train_classifier

CPU = torch.device("cpu")
RECIPE = TrainingRecipe(epochs=2, batch_size=9, image_size=32)


def noise(n=40, size=32, dtype=torch.uint8):
    generator = torch.Generator().manual_seed(size)
    images = torch.randint(0, 256, (n, 3, size, size), generator=generator).to(torch.uint8)
    if dtype != torch.uint8:
        images = (images.float() / 100 - 1.3).to(dtype)
    return ImageSet(images=images, labels=torch.arange(n) % 3, names=("a", "b", "c"))


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, 3))


def trained(data, device_share, device="cpu", **changes):
    model = network()
    settings = TrainingRecipe(**{**vars(RECIPE), **changes})
    records = train_classifier(
        model,
        data,
        settings,
        seed=0,
        device=device,
        device_share=device_share,
    )
    return [r.loss for r in records], {name: value.cpu() for name, value in model.state_dict().items()}


def assert_same(first, second):
    assert first[0] == second[0]
    assert all(torch.equal(value, second[1][name]) for name, value in first[1].items())


@pytest.mark.parametrize("size", [24, 32, 40])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_streamed_images_train_the_same_weights(size, dtype):
    data = noise(size=size, dtype=dtype)
    assert_same(trained(data, 0), trained(data, 0.4))


@pytest.mark.parametrize("device_share", [0, 0.4])
def test_a_mapped_set_is_not_copied(tmp_path, device_share):
    save_file({"images": noise(size=32).images}, tmp_path / "images.safetensors")
    images = load_file(tmp_path / "images.safetensors")["images"]
    data = ImageSet(images=images, labels=torch.arange(40) % 3, names=("a", "b", "c"))
    assert place_images(data, 32, CPU, device_share).images.data_ptr() == images.data_ptr()
    assert_same(trained(data, device_share), trained(noise(size=32), 0.4))


class Broken(Defense):
    def loss(self, step):
        plain = super().loss(step)
        return plain._replace(loss=plain.loss * torch.nan)


def test_an_error_ends_the_thread_and_comes_through():
    before = threading.active_count()
    with pytest.raises(TrainingDiverged):
        train_classifier(network(), noise(), RECIPE, seed=0, defense=Broken(), device_share=0)
    assert threading.active_count() == before


def test_floats_that_are_not_finite_are_refused():
    data = noise(dtype=torch.float32)
    data.images[7, 0, 0, 0] = torch.inf
    with pytest.raises(ValueError, match="expected finite floats"):
        place_images(data, 32, CPU, 0.4)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_streaming_to_a_gpu_changes_nothing(precision):
    for size in (24, 32):
        data = noise(size=size)
        assert_same(trained(data, 0, "cuda", precision=precision), trained(data, 0.4, "cuda", precision=precision))


@pytest.mark.gpu
def test_a_gpu_trains_what_a_cpu_trains():
    plain = {"augmentation": Augmentation(hue=0.0), "epochs": 1}
    on_gpu, on_cpu = trained(noise(), 0, "cuda", **plain), trained(noise(), 0, **plain)
    assert on_gpu[0] == pytest.approx(on_cpu[0], rel=1e-3)
