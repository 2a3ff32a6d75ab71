"""What a caller gives as pictures and people: every axis of a shape is looked at, not the first that fits."""

import numpy as np
import pytest
import torch
from PIL import Image

from smoothsweep.core.audit.pictures import load_all, load_people, public_pictures, refuse_shared
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.data.splits import stratified_split
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.data import LabelledData


def noise(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.parametrize(
    "shape",
    [
        (4, 1, 8, 8),
        (4, 3, 8, 6),
        (4, 3, 6, 8),
        (3, 8, 8),
        (8, 3, 8),
        (0, 3, 8, 8),
        (4, 4, 8, 8),
        (2, 4, 3, 8, 8),
        (3, 3),
    ],
)
def test_pictures_are_squares_of_three_channels(shape):
    with pytest.raises(InputError, match=r"public: expected images uint8 \[N, 3, S, S\], got torch\.uint8"):
        public_pictures(noise(*shape), size=8)


def test_pictures_are_bytes_as_a_tensor_or_an_array():
    given = noise(5, 3, 8, 8)
    assert torch.equal(public_pictures(given.numpy(), size=99), given) and public_pictures(given, size=1) is not None
    with pytest.raises(InputError, match=r"got torch\.float32 \[5, 3, 8, 8\]"):
        public_pictures(given.float(), size=8)
    for wrong in ([1, 2], None, given.numpy().astype("datetime64[s]")):
        with pytest.raises(InputError, match="expected a tensor or a numpy array, got"):
            public_pictures(wrong, size=8)


def people(labels, size=8):
    return noise(len(labels), 3, size, size, seed=3), torch.tensor(labels)


def test_a_tenth_of_every_person_tests_and_nobody_is_named_beyond_the_greatest_label():
    """Labels that are not sorted, and of which one never occurs: a split by position would show."""
    labels = np.random.default_rng(1).permutation([0] * 30 + [1] * 20 + [3] * 10).tolist()
    images, given = people(labels)
    with pytest.raises(InputError, match="2"):  # nobody of that number has a picture
        load_people((images, given), size=8)
    given = given.clamp_max(2)
    found = load_people((images, given), size=8)
    assert found.train.names == ("0", "1", "2")
    assert torch.bincount(found.test.labels).tolist() == [3, 2, 1]
    assert torch.bincount(found.train.labels).tolist() == [27, 18, 9]
    whose = {image.numpy().tobytes(): int(label) for image, label in zip(images, given, strict=True)}
    for part in (found.train, found.test):
        assert [whose[image.numpy().tobytes()] for image in part.images] == part.labels.tolist()
    held = {image.numpy().tobytes() for image in found.train.images}
    assert not any(image.numpy().tobytes() in held for image in found.test.images)


def test_everything_of_a_place_without_a_split_stands_as_it_is_listed(tmp_path):
    """Membership draws noise picture by picture: a split that was drawn in between gave other numbers than a sweep."""
    for person in range(2):
        (tmp_path / f"p{person}").mkdir()
        for number in range(15):
            Image.new("RGB", (8, 8), (100 * person + number,) * 3).save(tmp_path / f"p{person}" / f"{number:02d}.png")
    found = load_all(tmp_path, size=8)
    assert found.images[:, 0, 0, 0].tolist() == [*range(15), *range(100, 115)]
    assert found.labels.tolist() == [0] * 15 + [1] * 15


def test_the_split_is_that_of_a_sweep_on_the_same_pictures():
    """Whoever audits in memory and by a sweep file keeps the same pictures for testing."""
    images, labels = people(np.random.default_rng(2).permutation([0] * 40 + [1] * 30).tolist())
    usual = LabelledData(kind="labelled", path="p", size=16)
    _, test = stratified_split(labels, test_fraction=usual.test_fraction, seed=usual.split_seed, names=("0", "1"))
    assert torch.equal(load_people((images, labels), size=8).test.images, images[test])


def test_labels_may_be_names():
    images = noise(6, 3, 8, 8)
    for labels in (["bob", "ann"] * 3, np.array(["bob", "ann"] * 3)):
        people = load_all((images, labels), size=8)
        assert people.names == ("ann", "bob") and people.labels.tolist() == [1, 0] * 3
    with pytest.raises(InputError, match="a label for each of 6 images, got 2"):
        load_people((images, ["ann", "bob"]), size=8)


def test_private_pictures_among_the_public_are_named_by_their_rows_in_order():
    """Those that train and those that test; several, in another order than they are found."""
    images, labels = people([0] * 20 + [1] * 20)
    private = load_people((images, labels), size=8)
    public = torch.cat(
        [noise(3, 3, 8, 8, seed=9), private.test.images[:1], noise(2, 3, 8, 8, seed=8), private.train.images[5:7]]
    )
    with pytest.raises(InputError, match="got 3 of them: row 3, row 6, row 7"):
        refuse_shared(private, public)
    refuse_shared(private, noise(9, 3, 8, 8, seed=9))
    refuse_shared(private, private.train.images[:, :, ::2, ::2])  # of another size they are other pictures


def faces(many, each, population, first=0):
    return synthetic_faces(
        identities=many, per_identity=each, size=32, seed=4, population=population, first_image=first
    )


def split_of(found):
    return SplitImages(train=found, test=found.subset(torch.arange(0)), notes=())


def test_private_pictures_that_are_public_in_another_frame_are_told():
    """As the command tells of them: an attack that shows such a picture may have shown what was public."""
    own, others = faces(4, 6, "private"), faces(40, 1, "public").images
    moved = torch.roll(own.images[7], (1, -1), (1, 2))[None].flip(3)
    assert refuse_shared(split_of(own), others) == ()
    (told,) = refuse_shared(split_of(own), torch.cat([others, moved]))
    assert told == (
        "1 picture of data is, or looks like, a public one that was cropped, mirrored or saved again: private row 7 ~ "
        "row 40; an attack that draws them may have drawn what was public"
    )
    (told,) = refuse_shared(split_of(own), torch.cat([others, moved, own.images[3:4].flip(3)]))
    assert told.startswith("2 pictures of data are, or look like, public ones that were cropped, mirrored or saved ")


def test_public_pictures_of_another_kind_are_refused_and_grey_ones_told_of():
    own, others = faces(4, 6, "private"), faces(40, 1, "public").images
    grey = others.float().mean(dim=1, keepdim=True).expand_as(others).to(torch.uint8)
    (told,) = refuse_shared(split_of(own), grey)
    assert "0% of the public ones" in told and told.endswith("a low leak may then be the attacker's weakness")
    with pytest.raises(InputError, match="public: expected the same kind of picture as in data, got another"):
        refuse_shared(split_of(own), noise(40, 3, 32, 32))
