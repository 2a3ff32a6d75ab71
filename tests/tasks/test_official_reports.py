"""What the evaluator's stage reports as the low-resolution attacks' own code does, recomputed from whole trials."""

import statistics

import pandas as pd
import pytest
import torch

from smoothsweep.core.attacks.kept_networks import load_network
from smoothsweep.core.data.images import aligned_corners, stretched
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.judges import reported
from smoothsweep.tasks.reconstructions import decoded_reconstructions
from smoothsweep.tasks.training import load_classifier
from tests.tasks import test_plg
from tests.tasks.test_lowres_attacks import ATTACKS, sweep

ONLY_EVALUATOR = {"embedder": None, "knowledge": None}


def trial_of(attack, protocol):
    settings = sweep(attack, protocol)
    judges = settings.judges.model_copy(update=ONLY_EVALUATOR)
    return inversion_stages(settings.model_copy(update={"judges": judges}), 1)


def judged(pipeline, attack):
    """The trial's stages, its evaluator's metrics and rows."""
    stages = trial_of(attack, "paper")
    execute_with_inputs(pipeline.store, stages.judges.get("judge_evaluator"))
    folder = pipeline.store.path(stages.judges.get("judge_evaluator"))
    metrics = pipeline.store.manifest(stages.judges.get("judge_evaluator"))["metrics"]
    return stages, metrics, pd.read_parquet(folder / "per_image.parquet")


def made(pipeline, stages, part):
    """Latents in their order, and the images that the attack's generator makes of them, unclipped."""
    found = load_tensors(pipeline.store.path(stages.attack) / "reconstructions.safetensors")
    generator = load_network(pipeline.store.path(stages.attack.inputs[part]), "generator")
    with torch.no_grad():
        return found, generator.synthesize(found["w"])


def shares(rows, restarts):
    """Of every batch of two classes, the accuracies of its restarts."""
    for batch in ([0, 1], [2]):
        inside = rows[rows["class"].isin(batch)].assign(restart=restarts[rows["class"].isin(batch)])
        yield inside.groupby("restart")["hit"].mean().tolist()


def test_gmis_two_numbers_and_lommas_spread(paper):
    stages, metrics, rows = judged(paper, {**ATTACKS["gmi"], "reference_batch": 2})
    assert stages.judges.get("judge_evaluator").config["report"] == {"of": "gmi", "classes": 2}
    _, images = made(paper, stages, "general_gan")
    reconstructions = decoded_reconstructions(paper.store.path(stages.reconstructions))
    assert reconstructions["images"].dtype == torch.float32
    torch.testing.assert_close(reconstructions["images"], images, rtol=0, atol=1e-5)
    target = load_classifier(paper.store.path(stages.target), paper.config("target"), "cpu")
    logits = target(images).gather(1, reconstructions["labels"][:, None])[:, 0]
    right = anywhere = 0
    for label in range(3):
        own = (reconstructions["labels"] == label).nonzero()[:, 0]
        best = own[logits[own].argmax()]
        right += (rows["predicted"][int(best)] if logits[best] > 0 else 0) == label
        anywhere += rows["hit"][own.numpy()].any()
    assert metrics["gmi_acc"] == pytest.approx(right / 3) and metrics["gmi_acc_any"] == pytest.approx(anywhere / 3)
    spreads = [statistics.stdev(share) for share in shares(rows, rows["rank"])]
    assert metrics["attack_acc1_std_batches"] == pytest.approx(statistics.mean(spreads))


def test_of_lomma_on_gmi_the_report_is_lommas(paper):
    stages, metrics, _ = judged(paper, {**ATTACKS["lomma_gmi"], "reference_batch": 2})
    assert stages.judges.get("judge_evaluator").config["report"] == {"of": "lomma", "classes": 2}
    assert "gmi_acc" not in metrics and metrics["attack_acc1_std_batches"] is not None
    assert "decoded" not in stages.reconstructions.config


def test_plgs_distance_is_that_of_saved_pictures_and_its_spread_that_of_restarts(paper):
    stages, metrics, rows = judged(paper, test_plg.ATTACK)
    assert stages.judges.get("judge_evaluator").config["report"] == {"of": "plg", "classes": 60}
    found, images = made(paper, stages, "plg_gan")
    config = paper.config("judge_evaluator.evaluator")
    evaluator = load_classifier(paper.folder("judge_evaluator.evaluator"), config, "cpu")
    pictures = stretched((images + 1) / 2).float() / 127.5 - 1
    features, real = evaluator.embed(aligned_corners(pictures, 32)), paper.tensors("judge_evaluator.real", "features")
    between = torch.cdist(features.double(), real["train_features"].double()).square()
    between[found["labels"][:, None] != real["train_labels"]] = torch.inf
    assert metrics["dist_knn"] == pytest.approx(between.amin(1).mean().item(), rel=1e-3)
    assert metrics["dist_knn_plain"] == pytest.approx(between.amin(1).sqrt().mean().item(), rel=1e-3)
    assert metrics["dist_knn"] != pytest.approx(metrics["dist_eval"], rel=1e-3)  # of the images themselves
    share = rows.assign(restart=found["restart"].numpy()).groupby("restart")["hit"].mean()
    assert metrics["attack_acc1_std_batches"] == pytest.approx(statistics.stdev(share))


@pytest.mark.parametrize(("of", "spread"), [("lomma", 2 * 0.5**0.5 / 3), ("plg", (1 / 3) ** 0.5)])
def test_lommas_spread_is_a_mean_of_deviations_and_plgs_the_root_of_a_mean_of_variances(tmp_path, of, spread):
    """Three classes, a batch each, of two restarts: one right, both right, one right."""
    labels, answers = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1, 1, 1, 0, 2])
    save_tensors(tmp_path / "reconstructions.safetensors", {"restart": torch.tensor([0, 1] * 3)})
    config = {"report": {"of": of, "classes": 1}}
    found = reported(config, {"attack": tmp_path}, torch.eye(3)[answers], labels, "cpu")
    assert found == {"attack_acc1_std_batches": pytest.approx(spread)}


@pytest.mark.parametrize(("name", "spread"), [("restart", 0.5**0.5), ("draw", 0.5**0.5), ("other", 0.0)])
def test_restarts_and_draws_are_those_that_the_attack_numbered(tmp_path, name, spread):
    """Of two classes in one batch the first restart is right and the second wrong; best first they stand otherwise."""
    labels, answers = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    save_tensors(tmp_path / "reconstructions.safetensors", {name: torch.tensor([0, 1, 1, 0])})
    config = {"report": {"of": "lomma", "classes": 2}}
    found = reported(config, {"attack": tmp_path}, torch.eye(2)[answers], labels, "cpu")
    assert found == {"attack_acc1_std_batches": pytest.approx(spread)}


@pytest.mark.parametrize("attack", [*ATTACKS, "plg_mi"])
def test_protocol_clean_has_no_such_report_and_keeps_its_stages(attack):
    stages = trial_of(test_plg.ATTACK if attack == "plg_mi" else ATTACKS[attack], "clean")
    assert stages.judges.get("judge_evaluator").config == {"protocol": "clean"}
    assert set(stages.judges.get("judge_evaluator").inputs) == {"evaluator", "real", "loot"}
    assert set(stages.reconstructions.config) == {"protocol", "crop"}


def test_plug_and_play_keeps_its_stages_under_paper(paper):
    assert paper.stage("judge_evaluator").config == {"protocol": "paper"}
    assert set(paper.stage("judge_evaluator").inputs) == {"evaluator", "real", "loot"}
    assert "decoded" not in paper.stage("loot").config
    assert not {"gmi_acc", "attack_acc1_std_batches"} & set(paper.metrics("judge_evaluator"))
