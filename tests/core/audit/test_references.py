"""What is trained beside a model: one reference without any defense, and fixes that are none."""

import pytest

from smoothsweep.core.audit.references import FIXES, audit_trainings
from smoothsweep.core.defenses.labels import recipe_words


def made(**said):
    return audit_trainings("resnet18", **{"image_size": 64, "transform_input": False, "fix": True, **said})


def test_the_first_is_the_reference_and_no_fix_is():
    found = made()
    assert [one.is_reference for one in found] == [True, False, False, False]
    assert found[0].settings["defense"] == {"kind": "label_smoothing", "alpha": 0.0}
    assert [one.settings["defense"] for one in found[1:]] == [dict(fix) for fix in FIXES]
    assert [one.is_reference for one in made(fix=False)] == [True]


def test_labels_are_those_of_the_defenses_and_differ():
    found = made()
    assert [one.label for one in found] == [recipe_words(one.settings["defense"]).label for one in found]
    assert len({one.label for one in found}) == 4


@pytest.mark.parametrize("fix", [True, False])
def test_all_are_trained_alike_but_for_the_defense(fix):
    found = made(fix=fix, epochs=7, image_size=96)
    for one in found:
        settings = dict(one.settings)
        settings.pop("defense")
        augmentation = settings.pop("augmentation")
        assert settings == {
            "architecture": "resnet18",
            "image_size": 96,
            "pretrained": False,
            "epochs": 7,
            "batch_size": 50,
        }
        assert augmentation == found[0].settings["augmentation"] and augmentation
