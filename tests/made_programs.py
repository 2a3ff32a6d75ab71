"""A classifier of the people of `tests.foreign_classifier` that is a program, of a few weights for speed."""

import warnings
from pathlib import Path

import torch
from torch import nn

from tests.foreign_classifier import PEOPLE, SIDE, imagenet_images

NAMES = sorted(PEOPLE)


class Shades(nn.Module):
    """Tells people apart by how bright their squares are: a mean, then the nearest of the known shades."""

    def __init__(self, shades: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(4 * shades)
        self.bias = nn.Parameter(-2 * shades.square())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean = images.mean((1, 2, 3))
        return 4 * (mean[:, None] * self.weight + self.bias)


class Softmaxed(nn.Module):
    """A network that ends in its softmax."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images).softmax(1)


class Deciding(nn.Module):
    """A network that says the class alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images).argmax(1)


def shades_of(people: Path) -> Shades:
    """The network that knows the people of a folder, in alphabetical order, under ImageNet's normalisation."""
    images, labels = imagenet_images(people, NAMES)
    means = images.mean((1, 2, 3))
    return Shades(torch.stack([means[labels == label].mean() for label in range(len(NAMES))])).eval()


def torchscript(network: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(network).save(path)
    return path


def exported(network: nn.Module, path: Path, rows: int | None = None) -> Path:
    """rows: of a program that takes exactly so many images."""
    shapes = None if rows else ({0: torch.export.Dim("rows", min=1, max=4096)},)
    example = (torch.zeros(rows or 2, 3, SIDE, SIDE),)
    torch.export.save(torch.export.export(network, example, dynamic_shapes=shapes), path)
    return path
