"""Which embedders judge an audit: the one that is named, and a second whose weights are there."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.weight_files import WEIGHT_FILES
from smoothsweep.orchestrator.commands.audit.judges import judge_of, second_judge, two_judges


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A folder with the files of two embedders, and an empty one where files are staged."""
    monkeypatch.setenv("SMOOTHSWEEP_WEIGHTS", str(tmp_path / "staged"))
    (tmp_path / "staged").mkdir()
    for name in ("mobilefacenet_a.safetensors", "mobilefacenet_b.safetensors", "own.pth"):
        (tmp_path / name).touch()
    return tmp_path


def first(weights, name="mobilefacenet_a"):
    return judge_of(f"{name}={weights / f'{name}.safetensors'}")


def test_another_whose_weights_lie_beside_the_first_s_is_the_second(weights):
    found = second_judge(first(weights), None, looked_for=True)
    assert found == first(weights, "mobilefacenet_b")
    assert second_judge(first(weights, "mobilefacenet_b"), None, looked_for=True) == first(weights)


def test_a_staged_one_is_taken_where_none_lies_beside(weights):
    (weights / "mobilefacenet_b.safetensors").unlink()
    assert second_judge(first(weights), None, looked_for=True) == {}
    staged = weights / "staged" / WEIGHT_FILES["facenet"].file_name
    staged.touch()
    assert second_judge(first(weights), None, looked_for=True)["embedder"]["weights"] == str(staged)


@pytest.mark.parametrize("said", ["synthetic", None, "swag_vit_b_16"])
def test_none_is_looked_for_where_the_first_is_no_embedder_of_photographed_faces(weights, said):
    (weights / "staged" / WEIGHT_FILES["swag_vit_b_16"].file_name).touch()
    assert second_judge(judge_of(said), None, looked_for=True) == {}


def test_none_is_looked_for_beside_an_embedder_under_audit(weights):
    assert second_judge(first(weights), None, looked_for=False) == {}


def test_the_one_that_is_named_is_taken(weights):
    said = f"ir50={weights / 'own.pth'}"
    assert second_judge(first(weights), said, looked_for=False) == judge_of(said)


def test_wrong_seconds_are_refused(weights):
    a = f"mobilefacenet_a={weights / 'mobilefacenet_a.safetensors'}"
    with pytest.raises(InputError, match="--judge: expected two different embedders, got mobilefacenet_a twice"):
        second_judge(first(weights), a, looked_for=True)
    with pytest.raises(InputError, match="--judge: expected two embedders of faces where it is said twice"):
        second_judge(judge_of(f"swag_vit_b_16={weights / 'own.pth'}"), a, looked_for=True)
    with pytest.raises(InputError, match="--judge: expected it once or twice, got it 3 times"):
        two_judges(["a", "b", "c"])
    assert (two_judges(None), two_judges(["a"]), two_judges(["a", "b"])) == ((None, None), ("a", None), ("a", "b"))
