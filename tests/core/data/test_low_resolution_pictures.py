"""Pictures on their way to the low-resolution networks: byte by byte what the official loaders make of them."""

import numpy as np
import torch
from PIL import Image
from published_trees import celeba, celeba64_lists, encoded, put, written

from smoothsweep.core.data.celeba64 import central_face, load_celeba64_public
from smoothsweep.core.data.labelled import load_unlabelled
from smoothsweep.core.data.published import write_published
from tests.lowres import golden, whole_bytes

ALIGNED = whole_bytes("prep_celeba", (218, 178, 3))


def tree(root):
    """Private people of four pictures and a public one; the first of both is the golden picture."""
    celeba(root, [1, 1, 2, 2, 3], width=178, height=218)
    for name in ("000001", "000005"):
        put(root / "img_align_celeba" / f"{name}.png", encoded(ALIGNED))
    celeba64_lists(root, [("000001.jpg", 0), ("000003.jpg", 1)], [("000002.jpg", 0), ("000004.jpg", 1)])
    put(root / "celeba_ganset.txt", "000005.jpg\n")
    return root


def test_private_faces_are_cut_and_reduced_as_officially(tmp_path):
    assert np.array_equal(ALIGNED[:2, :4], golden("prep_celeba_crop_head"))
    assert central_face(0, Image.fromarray(ALIGNED)).size == (108, 108)
    root = tree(tmp_path / "in")
    for size in (64, 112):
        write_published("celeba64", root, tmp_path / str(size), size=size, classes=2)
        images, _ = written(tmp_path / str(size), "train")
        assert torch.equal(images[0], golden(f"prep_celeba_{size}_uint8"))


def test_public_faces_are_cut_and_reduced_as_officially(tmp_path):
    [image] = load_celeba64_public(tree(tmp_path), size=64)
    for name in ("celeba_gan", "ffhq_test"):
        assert torch.equal(image, golden(f"prep_lomma_{name}_uint8"))


def test_other_public_pictures_need_the_official_crop_before_they_come_here(tmp_path):
    """A folder's pictures are reduced whole: FaceScrub's of 64 pixels stay, FFHQ's have to be cut to 88 before."""
    scrubbed, thumbnail = whole_bytes("prep_facescrub", (64, 64, 3)), whole_bytes("prep_ffhq", (128, 128, 3))
    put(tmp_path / "facescrub" / "0.png", encoded(scrubbed))
    put(tmp_path / "ffhq" / "0.png", encoded(thumbnail[20:108, 20:108]))
    for name in ("facescrub", "ffhq"):
        [image] = load_unlabelled(tmp_path / name, size=64)
        assert torch.equal(image, golden(f"prep_lomma_{name}_gan_uint8"))
