"""Every kind of data of the table, and the one of `examples/plugin`: what it promises, whatever its kind."""

import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from tests.core.data.examples import example
from tests.nonsense import nonsense_for

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "plugin"))
from smoothsweep_example.stripes import Stripes

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
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(kind):
    assert set(example(kind).SWEPT) == {field.name for field in fields(KINDS[kind])} - {"path"}
    for field, value in nonsense_for(KINDS[kind]):
        with pytest.raises(InputError) as refusal:
            made(kind, **{field: value})
        assert str(refusal.value).startswith(f"data.{field}: expected "), (value, str(refusal.value))
