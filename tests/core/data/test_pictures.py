"""Drawn faces, kinds of data, splits, transforms, resizing, digests of trees."""

import os
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms import functional as TF
from torchvision.utils import make_grid

from smoothsweep.core.data.augmentation import Augmentation, _pixel_box, apply_augmentation, draw_augmentation, rotated
from smoothsweep.core.data.images import (
    aligned_corners,
    stretched,
    to_uint8,
    to_unit,
    truncated_bytes,
)
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.sources import path_state, tree_digest, tree_files
from smoothsweep.core.data.splits import frequency_ranks, paper_shuffle, samples_per_class, stratified_split
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.seeds import generator
from tests.core.data.examples import example
from tests.lowres import blocky, golden, s, u
from tests.plg import golden as of_plg

GOLDEN = Path(__file__).parents[2] / "golden" / "data.npz"
NAMES = ("ann", "bob", "cleo")

class_sizes = st.lists(st.integers(2, 30), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def golden_of_splits():
    with np.load(GOLDEN, allow_pickle=False) as arrays:
        return dict(arrays)


def labels_of(sizes, seed=0):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    np.random.default_rng(seed).shuffle(labels)
    return torch.from_numpy(labels)


def names_of(sizes):
    return tuple(f"class {i}" for i in range(len(sizes)))


def test_published_shuffle(golden_of_splits):
    np.testing.assert_array_equal(paper_shuffle(20), golden_of_splits["split_seed42_n20_full"])
    for n in (20, 1000, 37878):
        head = golden_of_splits[f"split_seed42_perm_n{n}_head"]
        np.testing.assert_array_equal(paper_shuffle(n)[: len(head)], head)
    np.testing.assert_array_equal(paper_shuffle(50), golden_of_splits["trainset_reshuffle_seed42_n50"])


def test_frequency_ranks_break_ties_by_first_appearance():
    assert frequency_ranks(["b", "a", "c", "c", "a", "d"], 3).tolist() == [2, 0, 1, 1, 0, -1]
    with pytest.raises(InputError, match="at most the 2 identities there are, got 3"):
        frequency_ranks([1, 2], 3)


@given(sizes=class_sizes, fraction=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
def test_stratified_split_is_a_partition_with_the_share_of_every_class(sizes, fraction, seed):
    labels, names = labels_of(sizes), names_of(sizes)
    train, test = stratified_split(labels, test_fraction=fraction, seed=seed, names=names)
    assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))
    for label, size in enumerate(sizes):
        in_test = int((labels[test] == label).sum())
        assert in_test == min(max(round(fraction * size), 1), size - 1)
    again = stratified_split(labels, test_fraction=fraction, seed=seed, names=names)
    assert torch.equal(again[0], train) and torch.equal(again[1], test)


@given(sizes=st.lists(st.integers(8, 30), min_size=1, max_size=6), seed=st.integers(0, 1000), data=st.data())
def test_samples_per_class_are_nested(sizes, seed, data):
    labels, names = labels_of(sizes), names_of(sizes)
    more = data.draw(st.integers(2, 8))
    fewer = data.draw(st.integers(1, more))
    large = samples_per_class(labels, more, seed=seed, names=names)
    small = samples_per_class(labels, fewer, seed=seed, names=names)
    assert torch.bincount(labels[large]).tolist() == [more] * len(sizes)
    assert torch.bincount(labels[small]).tolist() == [fewer] * len(sizes)
    assert set(small.tolist()) <= set(large.tolist())


def test_too_few_images_name_the_class():
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    with pytest.raises(InputError, match="at least 2 images of class bob, got 1"):
        stratified_split(labels, test_fraction=0.1, seed=0, names=NAMES)
    with pytest.raises(InputError, match="at least 3 training images of class bob, got 1"):
        samples_per_class(labels, 3, seed=0, names=NAMES)
    with pytest.raises(InputError, match="at least 1 training images of class dan, got 0"):
        samples_per_class(labels, 1, seed=0, names=(*NAMES, "dan"))


def faces(**changes):
    options = {"population": "private", "identities": 3, "per_identity": 4, "size": 32, "seed": 5} | changes
    return synthetic_faces(**options)


KNOWN_NOSE = [241, 193, 157]
KNOWN_BACKGROUND = [154, 181, 121]
KNOWN_MEAN = 150.548


def test_known_pixels():
    # The renderer uses exactly rounded operations only, so that the bytes are the same on every machine; angles and
    # normal deviates go through the mathematical library, whose last bit may differ: hence a tolerance of one level.
    drawn = synthetic_faces(population="private", identities=1, per_identity=1, size=64, seed=5).images[0]
    assert drawn[:, 32, 32].tolist() == pytest.approx(KNOWN_NOSE, abs=1)
    assert drawn[:, 2, 2].tolist() == pytest.approx(KNOWN_BACKGROUND, abs=1)
    assert drawn.float().mean().item() == pytest.approx(KNOWN_MEAN, abs=0.05)


@settings(max_examples=8, deadline=None)
@given(identity=st.integers(0, 40), image=st.integers(0, 10**6), seed=st.integers(0, 2**40), spread=st.floats(0.0, 2.0))
def test_an_image_does_not_depend_on_what_else_is_drawn(identity, image, seed, spread):
    options = {"population": "public", "size": 16, "seed": seed, "spread": spread}
    alone = synthetic_faces(identities=identity + 1, per_identity=1, first_image=image, **options)
    among = synthetic_faces(identities=identity + 2, per_identity=2, first_image=image, threads=2, **options)
    assert torch.equal(alone.images[identity], among.images[2 * identity])


def generator_of_transforms(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def images():
    return torch.rand(12, 3, 24, 24, generator=generator_of_transforms(1))


def test_to_unit_maps_the_ends_and_comes_back():
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).repeat(1, 3, 1, 1)
    unit = to_unit(levels)
    assert unit.dtype == torch.float32
    assert unit.min() == -1 and unit.max() == pytest.approx(1, abs=1e-6)
    assert torch.equal(to_uint8(unit), levels)
    with pytest.raises(ValueError, match="uint8"):
        to_unit(unit)


@pytest.mark.parametrize("out_size", [48, 24, 10])
def test_per_image_crop_equals_torchvisions_on_the_same_boxes(images, out_size):
    wide = Augmentation.none().replace(crop_scale=(0.3, 1.0), crop_ratio=(0.7, 1.4))
    draw = draw_augmentation(len(images), wide, generator_of_transforms())
    boxes = torch.stack(_pixel_box(draw, 24, 24, images.device), dim=1).int().tolist()
    got = apply_augmentation(images, draw, out_size=out_size)
    for i, box in enumerate(boxes):
        want = TF.resized_crop(images[i : i + 1], *box, [out_size, out_size], antialias=True)
        torch.testing.assert_close(got[i : i + 1], want, atol=1e-5, rtol=0)
    assert len({tuple(box) for box in boxes}) > 6  # one box per image, not one for all


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("brightness", TF.adjust_brightness),
        ("contrast", TF.adjust_contrast),
        ("saturation", TF.adjust_saturation),
        ("hue", TF.adjust_hue),
    ],
)
def test_colour_factors_are_torchvisions(images, part, function):
    draw = draw_augmentation(len(images), Augmentation.none().replace(**{part: 0.4}), generator_of_transforms())
    factors = getattr(draw, part)
    want = torch.stack([function(image, f.item()) for image, f in zip(images, factors, strict=True)])
    torch.testing.assert_close(apply_augmentation(images, draw), want, atol=1e-5, rtol=0)


@given(low=st.floats(0.05, 1.0), high=st.floats(0.05, 1.0), stretch=st.floats(1.0, 3.0), seed=st.integers(0, 2**31))
def test_boxes_stay_inside_and_within_the_ranges(low, high, stretch, seed):
    low, high = min(low, high), max(low, high)
    drawn = Augmentation.none().replace(crop_scale=(low, high), crop_ratio=(1 / stretch, stretch), brightness=0.2)
    draw = draw_augmentation(16, drawn, generator_of_transforms(seed))
    assert draw.brightness.min() >= 0.8 and draw.brightness.max() <= 1.2
    if draw.box is None:
        assert (low, high, stretch) == (1.0, 1.0, 1.0)
        return
    top, left, height, width = _pixel_box(draw, 40, 40, torch.device("cpu"))
    assert (top >= 0).all() and (left >= 0).all()
    assert (top + height <= 40).all() and (left + width <= 40).all()
    area = draw.box[:, 0] * draw.box[:, 1]
    clipped = (draw.box[:, :2] == 1).any(dim=1)
    assert ((area <= high + 1e-5) & ((area >= low - 1e-5) | clipped)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop_scale": (0.0, 1.0)}, "crop_scale"),
        ({"crop_scale": (0.9, 0.5)}, "crop_scale"),
        ({"crop_scale": (0.5, 1.2)}, "crop_scale"),
        ({"crop_ratio": (2.0, 1.0)}, "crop_ratio"),
        ({"hue": 0.6}, "hue: expected a number of at most 0.5, got 0.6"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Augmentation(**changes)


@given(n=st.integers(1, 12), seed=st.integers(0, 2**31), flip=st.sampled_from([0.0, 0.5]))
def test_a_shared_draw_is_one_images_draw_for_all(n, seed, flip):
    augmentation = Augmentation(flip=flip, shared=True)
    shared = draw_augmentation(n, augmentation, generator_of_transforms(seed))
    single = draw_augmentation(1, augmentation.replace(shared=False), generator_of_transforms(seed))
    assert len(shared) == n and (shared.flip is None) == (flip == 0.0)
    for name in ("box", "brightness", "contrast", "saturation", "hue", "flip"):
        value = getattr(shared, name)
        assert value is None or (len(value) == n and (value == getattr(single, name)).all())


def plant(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


FILES = {"a/1.png": b"one", "a/10.png": b"ten", "b/list.txt": b"a 1", "c.mat": b""}


def test_names_and_contents_count_and_the_place_does_not(tmp_path):
    here, there = plant(tmp_path / "here", FILES), plant(tmp_path / "elsewhere", FILES)
    (there / ".hidden").write_text("x")
    assert tree_digest(here) == tree_digest(there)
    renamed = {("a/2.png" if name == "a/1.png" else name): content for name, content in FILES.items()}
    for other in ({**FILES, "a/1.png": b"onE"}, {**FILES, "d": b""}, renamed):
        assert tree_digest(plant(tmp_path / str(len(list(tmp_path.iterdir()))), other)) != tree_digest(here)


@given(st.lists(st.binary(max_size=6), min_size=2, max_size=4))
def test_bytes_cannot_wander_between_files(tmp_path_factory, contents):
    root = tmp_path_factory.mktemp("tree")
    split = plant(root / "split", {str(i): c for i, c in enumerate(contents)})
    merged = plant(root / "merged", {"0": b"".join(contents), **{str(i): b"" for i in range(1, len(contents))}})
    same = all(not content for content in contents[1:])
    assert (tree_digest(split) == tree_digest(merged)) == same


def test_the_state_moves_with_time_and_size(tmp_path):
    root = plant(tmp_path / "t", FILES)
    before, total = path_state(root)
    assert total == sum(map(len, FILES.values())) and path_state(root) == (before, total)
    os.utime(root / "a/1.png", ns=(1, 1))
    assert path_state(root)[0] != before


def test_a_link_in_a_circle_is_one_line(tmp_path):
    root = plant(tmp_path / "t", FILES)
    (root / "a" / "up").symlink_to(root)
    with pytest.raises(InputError, match="again through a link"):
        list(tree_files(root))


sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "plugin"))

from smoothsweep_example.stripes import Stripes  # noqa: E402

sys.path.pop(0)
KINDS = {**DATA, "stripes": Stripes}


def made(kind, **changes):
    return build(KINDS[kind], {**example(kind).EXAMPLE, **changes}, what=f"data {kind}", prefix="data.")


def loaded(kind, folder):
    """Its training and test images, of the files that its expectations write, if any."""
    write = getattr(example(kind), "files", None)
    return made(kind).load(None if write is None else write(folder))


@pytest.mark.parametrize("kind", KINDS)
def test_it_makes_the_same_square_pictures_of_the_same_classes_every_time(kind, tmp_path):
    (train, test), (again, _) = (loaded(kind, tmp_path) for _ in range(2))
    assert train.names == test.names and made(kind).classes_known in (None, train.num_classes)
    for images in (train, test):
        assert images.images.dtype == torch.uint8 and images.images.shape[2] == images.images.shape[3]
        assert images.images.shape[:2] == (len(images.labels), 3) and images.labels.max() < images.num_classes
    assert torch.equal(train.images, again.images) and torch.equal(train.labels, again.labels)
    assert not any((one == train.images).flatten(1).all(1).any() for one in test.images), "tested on what it learnt"


@pytest.mark.parametrize("kind", KINDS)
def test_it_states_as_many_images_as_it_makes(kind, tmp_path):
    if (counts := made(kind).training_counts()) is not None:
        assert counts == tuple(loaded(kind, tmp_path)[0].labels.bincount().tolist())
        assert set(made(kind, samples_per_class=1).training_counts()) == {1}


@pytest.mark.parametrize(("kind", "wrong", "said"), [(kind, *row) for kind in KINDS for row in example(kind).WRONG])
def test_wrong_settings_are_refused_in_one_line(kind, wrong, said):
    with pytest.raises(InputError, match=said) as refusal:
        made(kind, **wrong)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_swept(kind):
    assert set(example(kind).SWEPT) == {field.name for field in fields(KINDS[kind])} - {"path"}


def test_truncated_bytes_are_those_of_the_official_code():
    images = u("low2high", (2, 3, 64, 64))[:1]
    steps = (truncated_bytes(2 * images - 1, 112) + 1) * 127.5
    assert torch.equal(steps.round().to(torch.uint8), golden("eval_low2high_uint8"))


def test_aligned_corners_are_kornias():
    images = u("low2high", (2, 3, 64, 64))[:1]
    found = (aligned_corners(2 * images - 1, 112) + 1) / 2
    torch.testing.assert_close(found[..., ::2, ::2], of_plg("eval_plg_resize112"), rtol=0, atol=2e-5)


def test_it_is_what_torchvision_saves():
    image = 0.2 + 0.5 * s("png", (1, 3, 64, 64))
    grid = make_grid(image, normalize=True).mul(255).add(0.5).clamp(0, 255).to(torch.uint8)  # as save_image has it
    assert torch.equal(stretched(image)[0], grid)
    official = golden("eval_saved_png_uint8").permute(2, 0, 1).int()
    assert (stretched(image)[0].int() - official).abs().max() <= 1
    first = 0.15 + 0.6 * blocky("plg_png", 20)
    official = golden("plg_png_first_uint8").permute(2, 0, 1).int()
    assert (stretched(first)[0, :, ::8, ::8].int() - official).abs().max() <= 1


def sampled(images, degrees):
    """The rotation by torch's own sampling."""
    angle = torch.deg2rad(degrees)
    matrix = torch.stack([angle.cos(), -angle.sin(), angle * 0, angle.sin(), angle.cos(), angle * 0], 1).view(-1, 2, 3)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=True)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


@settings(max_examples=15)
@given(degrees=st.lists(st.floats(-45, 45), min_size=1, max_size=3), side=st.integers(2, 20))
def test_a_rotation_and_its_gradient_are_those_of_torchs_sampling(degrees, side):
    source, angles = generator(side), torch.tensor(degrees, dtype=torch.float64)
    images = torch.rand(len(degrees), 2, side, side, generator=source, dtype=torch.float64).requires_grad_()
    wave = torch.randn(images.shape, generator=source, dtype=torch.float64)
    ours, theirs = rotated(images, angles), sampled(images, angles)
    torch.testing.assert_close(ours, theirs)
    for_ours, for_theirs = (torch.autograd.grad((found * wave).sum(), images)[0] for found in (ours, theirs))
    torch.testing.assert_close(for_ours, for_theirs)
