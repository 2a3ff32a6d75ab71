"""The same photograph in another frame is found, and no other one, on drawn faces."""

import numpy as np
import pytest
import torch

from smoothsweep.core.data.likeness import ALIGNED, same_photographs
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.data.transforms import resize

SIDE, COPIES = 64, 12


def drawn(population, people, seed):
    faces = synthetic_faces(population=population, identities=people, per_identity=1, size=SIDE, spread=0.6, seed=seed)
    return faces.images.float()


def small(images):
    return resize(images, 32).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()


def turned(images, degrees, scale=1.0):
    angle = torch.tensor(np.deg2rad(degrees))
    rows = scale * torch.tensor([[angle.cos(), -angle.sin(), 0], [angle.sin(), angle.cos(), 0]])
    grid = torch.nn.functional.affine_grid(
        rows.float().expand(len(images), 2, 3), list(images.shape), align_corners=False
    )
    return torch.nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


FRAMES = {
    "shifted by two pixels": lambda images: torch.roll(images, (2, -2), (2, 3)),
    "cropped": lambda images: images[..., 5:59, 5:59],
    "cropped at a corner": lambda images: images[..., :58, :58],
    "turned": lambda images: turned(images, 6),
    "mirrored": lambda images: images.flip(3),
    "mirrored, shifted and turned": lambda images: turned(torch.roll(images, (2, 1), (2, 3)), -5).flip(3),
    "brighter": lambda images: (images * 0.8 + 40).clamp(0, 255),
}


@pytest.fixture(scope="module")
def private():
    return drawn("private", COPIES, 1)


@pytest.fixture(scope="module")
def strangers():
    return small(drawn("public", 60, 2))


@pytest.mark.parametrize("frame", FRAMES)
def test_a_copy_in_another_frame_is_found(frame, private, strangers):
    public = np.concatenate([strangers, small(FRAMES[frame](private))])
    found, likeness = same_photographs(small(private), public)
    assert found.tolist() == list(range(len(strangers), len(public)))
    assert (likeness >= ALIGNED).all()


@pytest.mark.parametrize(
    ("frame", "least"),
    [
        (lambda images: images[..., 13:51, 13:51], 5),
        (lambda images: images[..., 10:54, 11:55].flip(3), 8),
    ],
    ids=["six tenths", "seven tenths, mirrored"],
)
def test_of_narrow_crops_many_are_found_and_none_is_taken_for_another(frame, least, private, strangers):
    """They have few pixels left; some are below the bound that no stranger reaches."""
    public = np.concatenate([strangers, small(frame(private))])
    found, _ = same_photographs(small(private), public)
    hits = found == np.arange(len(strangers), len(public))
    assert hits.sum() >= least and (found[~hits] == -1).all()


def test_a_private_picture_that_was_cut_out_of_a_public_one_is_found(private, strangers):
    """Private faces are often framed more tightly than the photographs that they are from."""
    public = np.concatenate([strangers, small(private)])
    for edge in (3, 6, 8):
        found, _ = same_photographs(small(private[..., edge:-edge, edge:-edge]), public)
        assert found.tolist() == list(range(len(strangers), len(public)))


def test_other_faces_are_no_copies(private, strangers):
    found, likeness = same_photographs(small(private), strangers)
    assert (found == -1).all() and (likeness < ALIGNED).all()


def test_pictures_of_one_shade_are_near_nothing(strangers):
    plain = np.full((2, 32, 32, 3), 90, np.uint8)
    assert (same_photographs(plain, np.concatenate([strangers, plain]))[0] == -1).all()
    assert (same_photographs(strangers[:3], strangers[:0])[0] == -1).all()
