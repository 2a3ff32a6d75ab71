"""How many classes a sweep attacks, and how many its data have."""

import pytest
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.power import size_of
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from tests.labelled_files import encoded, folders, scene


def size(tmp_path, **changes):
    loaded = load_sweep(write_tiny(tmp_path, **{"judges": {"embedder": {"name": "synthetic"}}, **changes}))
    return size_of(loaded, expand(loaded))


def counted(found):
    return found.design.classes, found.available


def test_of_synthetic_people_the_file_says_it(tmp_path):
    data = {"kind": "synthetic", "identities": 9, "train_per_class": 8, "size": 32}
    assert counted(size(tmp_path, data=data)) == (9, 9)
    assert counted(size(tmp_path, data=data, classes=[1, 4])) == (2, 9)


def test_of_ones_own_images_they_are_counted_and_the_largest_classes_are_not_all(tmp_path):
    own = folders(tmp_path / "own", {f"{who}/{i}.png": encoded(scene(9 * who + i)) for who in range(5) for i in (0, 1)})
    data = {"kind": "labelled", "path": str(own), "size": 32}
    assert counted(size(tmp_path, data=data)) == (5, 5)
    assert counted(size(tmp_path, data={**data, "largest_classes": 3})) == (3, 5)


def test_images_that_are_not_there_yet_cannot_be_counted(tmp_path):
    data = {"kind": "labelled", "path": str(tmp_path / "none"), "size": 32}
    assert counted(size(tmp_path, data={**data, "largest_classes": 3})) == (3, 3)
    with pytest.raises(InputError, match="is not known before the data are there"):
        size(tmp_path, data=data)


def test_a_published_set_has_as_many_as_the_paper_says(tmp_path):
    data = {"kind": "facescrub", "path": str(tmp_path), "classes": 20}
    assert counted(size(tmp_path, data=data)) == (20, 530)


def test_the_fewest_images_of_any_attack_count(tmp_path):
    assert size(tmp_path, grid={"recipe.defense.alpha": [0.0, -0.1], "attack.selected": [3, 2]}).design.images == 2
