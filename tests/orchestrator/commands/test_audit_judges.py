"""Which embedders judge an audit: the one that is named, and a second whose weights are there."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.weight_files import WEIGHT_FILES
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.subject import judge_of, judges_of


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A folder with the files of two embedders, and an empty one where files are staged."""
    monkeypatch.setenv("SMOOTHSWEEP_WEIGHTS", str(tmp_path / "staged"))
    (tmp_path / "staged").mkdir()
    for name in ("mobilefacenet_a.safetensors", "mobilefacenet_b.safetensors", "own.pth"):
        (tmp_path / name).touch()
    return tmp_path


def named(weights, name="mobilefacenet_a", ending="safetensors"):
    return f"{name}={weights / f'{name}.{ending}'}"


def second(*options, gallery=None):
    """The second judge of an audit with these options `--judge`."""
    request = AuditRequest(judge=list(options) or None, data=None, gallery=gallery)
    first, found = judges_of(request)
    assert first == judge_of(options[0] if options else None)
    return found


def test_another_whose_weights_lie_beside_the_first_s_is_the_second(weights):
    a, b = named(weights), named(weights, "mobilefacenet_b")
    assert second(a) == judge_of(b) and second(b) == judge_of(a)
    assert second(a, gallery=weights) == {}, "it might be the embedder under audit"


def test_a_staged_one_is_taken_where_none_lies_beside(weights):
    (weights / "mobilefacenet_b.safetensors").unlink()
    assert second(named(weights)) == {}
    staged = weights / "staged" / WEIGHT_FILES["facenet"].file_name
    staged.touch()
    assert second(named(weights))["embedder"]["weights"] == str(staged)


@pytest.mark.parametrize("options", [("synthetic",), (), ("swag_vit_b_16",)])
def test_none_is_looked_for_where_the_first_is_no_embedder_of_photographed_faces(weights, options):
    (weights / "staged" / WEIGHT_FILES["swag_vit_b_16"].file_name).touch()
    assert second(*options) == {}


def test_the_one_that_is_named_is_taken_and_a_wrong_one_refused(weights):
    a, other = named(weights), f"ir50={weights / 'own.pth'}"
    assert second(a, other, gallery=weights) == judge_of(other)
    for options, line in (
        ((a, a), "--judge: expected two different embedders, got mobilefacenet_a twice"),
        (
            (f"swag_vit_b_16={weights / 'own.pth'}", a),
            "--judge: expected two embedders of faces where it is said",
        ),
        ((a, a, a), "--judge: expected it once or twice, got it 3 times"),
    ):
        with pytest.raises(InputError, match=line):
            second(*options)
