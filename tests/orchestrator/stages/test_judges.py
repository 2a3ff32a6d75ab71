"""Which judges a sweep hears, at which sizes, and why it does not hear one."""

import hashlib

import pytest
from tiny import tiny_sweep

from smoothsweep.core.models.weight_files import FOLDER_VARIABLE, weight_file
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.stages import judges
from smoothsweep.orchestrator.stages.judges import reconstruction_sizes, unavailable_reasons
from smoothsweep.sweeps.schema import InversionSweep

FACENET = "the weights of facenet are not here: smoothsweep weights stage"
INCEPTION = "the weights of the FID network are not here: smoothsweep weights stage"
IMAGENET = "the weights of inception_v3 are not here: smoothsweep weights stage"
BOTH = {"embedder": {"name": "facenet"}, "fidelity": {"neighbours": 1}}


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """A folder of staged weights, still empty."""
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    judges.staged_file.cache_clear()
    yield folder
    judges.staged_file.cache_clear()


def stage_file(folder, name):
    path = folder / weight_file(name).file_name
    path.write_bytes(name.encode())
    judges.staged_file.cache_clear()
    return path


def settings(of_judges, **changes):
    return InversionSweep.model_validate(tiny_sweep(judges=of_judges, grid={}, baseline={}, **changes))


def test_a_judge_whose_weights_are_not_staged_is_not_heard_and_says_why(staged):
    asked = settings(BOTH)
    beside = {"judge_verification": FACENET, "judge_prior_reach": FACENET}  # of the embedder, which they accompany
    assert unavailable_reasons(asked) == {"judge_embedder": FACENET, "judge_fidelity": INCEPTION, **beside}
    stages = inversion_stages(asked, 1)
    assert not stages.judges
    stage_file(staged, "facenet")
    assert unavailable_reasons(asked) == {"judge_fidelity": INCEPTION}
    stage_file(staged, "fid_inception")
    assert unavailable_reasons(asked) == {}


def test_of_a_published_set_every_judge_sees_pictures_of_its_own_size(staged, tmp_path):
    (tmp_path / "celeba").mkdir()
    (tmp_path / "celeba" / "list.txt").write_text("faces")
    stage_file(staged, "facenet")
    small = {"architecture": "vgg_small", "pretrained": False, "epochs": 1}
    judged = {
        "embedder": {"name": "facenet"},
        "evaluator": {**small, "image_size": 48},
        "knowledge": {**small, "image_size": 40},
    }
    stages = inversion_stages(settings(judged, data={"kind": "celeba", "path": str(tmp_path / "celeba")}), 1)
    sizes = {
        "target": stages.target.inputs["data"],
        "embedder": stages.judges["judge_embedder"].inputs["real"].inputs["data"],
        "evaluator": stages.judges["judge_evaluator"].inputs["real"].inputs["data"],
        "knowledge": stages.judges["knowledge"].inputs["data"],
    }
    found = {name: stage.config["size"] for name, stage in sizes.items()}
    assert found == {"target": 32, "embedder": 160, "evaluator": 48, "knowledge": 40}


@pytest.mark.parametrize(
    ("of_judges", "sizes"),
    [
        ({}, [0]),
        ({"embedder": {"name": "synthetic"}}, [0]),
        ({"embedder": {"name": "facenet"}}, [160]),
        ({"fidelity": {"neighbours": 1}}, [299]),
        ({"evaluator": {"architecture": "vgg_small", "pretrained": False, "image_size": 48}}, [48]),
        (
            {
                "knowledge": {"architecture": "vgg_small", "pretrained": False, "image_size": 40},
                "embedder": {"name": "facenet"},
            },
            [40, 160],
        ),
        ({**BOTH, "evaluator": {"architecture": "vgg_small", "pretrained": False, "image_size": 299}}, [160, 299]),
    ],
)
def test_protocol_paper_keeps_the_reconstructions_at_every_judges_size(staged, of_judges, sizes):
    assert reconstruction_sizes(settings(of_judges)) == sizes


EVALUATOR = {"architecture": "vgg_small", "pretrained": False, "image_size": 48}
PUBLISHED = {"evaluator": EVALUATOR, "fid_lomma": {}, "fid_plg": {}}


def test_the_published_fids_are_judges_of_their_own_over_what_the_evaluator_recognises(staged):
    asked = settings(PUBLISHED, protocol="paper")
    assert unavailable_reasons(asked) == {"judge_fid_lomma": INCEPTION, "judge_fid_plg": IMAGENET}
    stages = inversion_stages(asked, 1)
    assert list(stages.judges) == ["judge_evaluator"]
    files = {"fid_lomma": stage_file(staged, "fid_inception"), "fid_plg": stage_file(staged, "inception_v3")}
    stages = inversion_stages(asked, 1)
    assert stages.reconstructions.config["decoded"] == 32 and stages.reconstructions.config["sizes"] == [
        48
    ]  # the target's, the evaluator's
    for name, path in files.items():
        stage = stages.judges[f"judge_{name}"]
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        assert stage.config == {"network": name, "side": 32, "content": content}  # under both protocols
        assert stage.hints == {"path": str(path)}
        assert (
            stage.inputs["verdicts"] is stages.judges["judge_evaluator"]
            and stage.inputs["loot"] is stages.reconstructions
        )
        assert stage.inputs["real"].config == {**stage.config, "parts": ["train"]}
        assert stage.inputs["real"].inputs == {"data": stages.data}
    clean = inversion_stages(settings(PUBLISHED), 1)
    assert (
        "decoded" not in clean.reconstructions.config
        and clean.judges["judge_fid_plg"].config == stages.judges["judge_fid_plg"].config
    )


@pytest.mark.parametrize("name", ["fid_lomma", "fid_plg"])
def test_a_published_fid_without_an_evaluator_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected judges.evaluator beside it"):
        settings({name: {}})


def test_the_surrogate_of_protocol_paper_draws_one_crop_for_a_batch(staged):
    surrogate = {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "checkpoint_every": 7}
    for protocol, shared in (("paper", True), ("clean", None)):
        stage = inversion_stages(settings({"knowledge": surrogate}, protocol=protocol), 1).judges["knowledge"]
        assert stage.config["augmentation"].get("shared") is shared and stage.config["protocol"] == protocol
        assert stage.hints == {"checkpoint_every": 7} and "checkpoint_every" not in stage.config


FEATURES = {"name": "synthetic"}


def test_verification_and_reach_stand_beside_an_embedder_and_leave_its_stage_as_it_was():
    alone, beside = (
        inversion_stages(settings({"embedder": {**FEATURES, "verify": verify}}), 1).judges for verify in (False, None)
    )
    assert list(alone) == ["judge_embedder"]
    assert list(beside) == ["judge_embedder", "judge_verification", "judge_prior_reach"]
    embedder, verified, reach = beside.values()
    assert embedder.fingerprint == alone["judge_embedder"].fingerprint
    assert verified.inputs["real"] == reach.inputs["real"] == embedder.inputs["real"]
    assert verified.inputs["strangers"].inputs["public"] == reach.inputs["projected"].inputs["prior"].inputs["public"]
    other = inversion_stages(settings({"embedder": {**FEATURES, "verify": None}}), 2).judges
    assert other["judge_prior_reach"] == reach and other["judge_verification"] != verified  # the reach is of no trial


def test_verification_that_is_asked_for_needs_strangers():
    from smoothsweep.core.errors import InputError
    from smoothsweep.tasks.registry import task

    asked = {"embedder": {**FEATURES, "verify": True}}
    strangers = inversion_stages(settings(asked), 1).judges["judge_verification"].inputs["strangers"]
    few = {"public": {"kind": "synthetic", "identities": 7, "per_identity": 7}}
    with pytest.raises(InputError, match="expected 50 or more strangers, for a threshold of 1 % false accepts, got 49"):
        task("strangers").refuse({**strangers.config, **strangers.hints}, few)
    where_enough = {"embedder": {**FEATURES, "verify": None}}
    unasked = inversion_stages(settings(where_enough), 1).judges["judge_verification"].inputs["strangers"]
    assert unasked.fingerprint == strangers.fingerprint
    task("strangers").refuse({**unasked.config, **unasked.hints}, few)
