"""Verdicts of judges as stages give them."""

import json
import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from tiny import tiny_sweep
from torch import nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, measured, stage_of
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.fid import PUBLISHED_FIDS
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import unavailable_reasons
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_images, save_rows, save_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.registry import TASKS
from smoothsweep.tasks.training import load_classifier
from tests.orchestrator.settings_cases import CASES
from tests.pipeline import SETTINGS, stages_of_a_trial


def floats(images):
    """Images of either protocol as floats in [-1, 1]."""
    return images.float() / 127.5 - 1 if images.dtype == torch.uint8 else images.float()


def at_32(images):
    images = floats(images)
    if images.shape[-1] == 32:
        return images
    return F.interpolate(images, size=(32, 32), mode="bilinear", align_corners=False, antialias=True)


@torch.no_grad()
def evaluator_features(pipeline, images):
    name = "judge_evaluator.evaluator"
    model = load_classifier(pipeline.folder(name), pipeline.config(name), "cpu")
    return model.embed(at_32(images)), model.head.weight, model.head.bias


@torch.no_grad()
def embedder_features(images):
    return load_embedder("synthetic")(floats(images))


def nearest(features, labels, real, real_labels):
    """Distance to the nearest real image of the same class, and its row, by brute force."""
    found = []
    for row, label in zip(features.double(), labels, strict=True):
        distances = (real.double() - row).square().sum(1).sqrt()
        distances[real_labels != label] = torch.inf
        found.append((distances.min().item(), distances.argmin().item()))
    distance, index = zip(*found, strict=True)
    return torch.tensor(distance, dtype=torch.float64), list(index)


def checked_verdicts(folder, judge, logits, labels, distance, index):
    rows = pd.read_parquet(folder / "per_image.parquet")
    predicted = logits.argmax(1)
    assert rows["class"].tolist() == labels.tolist() and rows["rank"].tolist() == [0, 1, 2] * 3
    assert rows["predicted"].tolist() == predicted.tolist()
    assert rows["hit"].tolist() == (predicted == labels).tolist()
    assert rows["distance"].tolist() == pytest.approx(distance.tolist(), rel=1e-3) and rows["nearest"].tolist() == index
    classes = pd.read_parquet(folder / "per_class.parquet")
    share = [(predicted == labels)[labels == c].float().mean().item() for c in range(3)]
    assert classes["class"].tolist() == [0, 1, 2] and classes[f"{judge}_acc1"].tolist() == pytest.approx(share)


@pytest.mark.parametrize("judge", ["evaluator", "embedder"])
def test_embeddings_are_those_of_the_real_images_in_order(pipeline, judge):
    made = pipeline.tensors(f"judge_{judge}.real", "features")
    for part in ("train", "test"):
        data = pipeline.tensors(f"judge_{judge}.real.data", part)
        features = embedder_features if judge == "embedder" else lambda x: evaluator_features(pipeline, x)[0]
        torch.testing.assert_close(made[f"{part}_features"], features(data["images"]), rtol=1e-3, atol=1e-4)
        assert torch.equal(made[f"{part}_labels"], data["labels"])
    assert pipeline.metrics(f"judge_{judge}.real") == {"feature_dim": made["train_features"].shape[1]}


def test_the_evaluators_verdict(pipeline):
    reconstructions = reconstructed_images(pipeline.folder("loot"), 32)
    features, weight, bias = evaluator_features(pipeline, reconstructions["images"])
    logits, labels = features @ weight.T + bias, reconstructions["labels"]
    hits = (logits.argmax(1) == labels).double()
    metrics = pipeline.metrics("judge_evaluator")
    real = {part: pipeline.tensors("judge_evaluator.real.data", part) for part in ("train", "test")}
    train = evaluator_features(pipeline, real["train"]["images"])[0]
    distance, index = nearest(features, labels, train, real["train"]["labels"])
    assert metrics["attack_acc1"] == pytest.approx(hits.mean().item())
    assert metrics["attack_acc5"] == 1.0  # there are three classes
    by_class = torch.stack([hits[labels == c].mean() for c in range(3)])
    assert metrics["attack_acc1_std"] == pytest.approx(by_class.std().item())
    slots = hits.view(3, 3).mean(0)
    assert metrics["attack_acc1_std_slots"] == pytest.approx(slots.std().item())
    own = logits.softmax(1)[torch.arange(9), labels]
    assert metrics["attack_conf"] == pytest.approx(own.mean().item(), rel=1e-3)
    assert metrics["dist_eval"] == pytest.approx((distance**2).mean().item(), rel=1e-3)  # squared, as published
    assert metrics["dist_eval_plain"] == pytest.approx(distance.mean().item(), rel=1e-3)
    assert metrics["dist_knn"] == pytest.approx(metrics["dist_eval"], rel=1e-3)  # all labels are below 300
    assert metrics["dist_knn_plain"] == pytest.approx(metrics["dist_eval_plain"], rel=1e-3)
    assert metrics["attack_acc5_last"] == 1.0
    assert metrics["dist_eval"] != pytest.approx(metrics["dist_eval_plain"], rel=0.01)
    tested = evaluator_features(pipeline, real["test"]["images"])[0] @ weight.T + bias
    right = (tested.argmax(1) == real["test"]["labels"]).double().mean().item()
    assert metrics["evaluator_real_acc"] == pytest.approx(right)
    checked_verdicts(pipeline.folder("judge_evaluator"), "attack", logits, labels, distance, index)


def test_the_embedders_verdict(pipeline):
    reconstructions = reconstructed_images(pipeline.folder("loot"), None)
    real = {part: pipeline.tensors("judge_embedder.real.data", part) for part in ("train", "test")}
    train, test, features = (embedder_features(x["images"]) for x in (real["train"], real["test"], reconstructions))
    head = LogisticRegression(C=30.0, tol=1e-6, max_iter=1000)
    head.fit(F.normalize(train.double()), real["train"]["labels"])
    logits = torch.from_numpy(head.decision_function(F.normalize(features.double())))
    labels, metrics = reconstructions["labels"], pipeline.metrics("judge_embedder")
    hits = (logits.argmax(1) == labels).double()
    distance, index = nearest(features, labels, train, real["train"]["labels"])
    assert metrics["embedder_acc1"] == pytest.approx(hits.mean().item()) and metrics["embedder_acc5"] == 1.0
    by_class = torch.stack([hits[labels == c].mean() for c in range(3)])
    assert metrics["embedder_acc1_std"] == pytest.approx(by_class.std().item())
    assert metrics["dist_face"] == pytest.approx((distance**2).mean().item(), rel=1e-3)
    assert metrics["dist_face_plain"] == pytest.approx(distance.mean().item(), rel=1e-3)
    right, taken = real["test"]["labels"].numpy(), head.predict(F.normalize(test.double()))
    assert metrics["embedder_real_acc"] == pytest.approx((taken == right).mean())
    assert metrics["embedder_real_acc_balanced"] == pytest.approx(balanced_accuracy_score(right, taken))
    checked_verdicts(pipeline.folder("judge_embedder"), "embedder", logits, labels, distance, index)


def test_the_general_judges_verdict_is_a_linear_head_on_its_own_features(pipeline, tmp_path, monkeypatch):
    """By a network that stands for the published one, which is not here: nine numbers of each picture."""

    class Coarse(nn.Module):
        def forward(self, images):
            return F.normalize(F.adaptive_avg_pool2d(images, 3).flatten(1))

    monkeypatch.setattr(judges, "load_embedder", lambda name, path: Coarse())
    monkeypatch.setattr(judges, "own_weights", lambda name: tmp_path / name)
    config, made = {"network": "swag_vit_b_16"}, {}
    for name in ("real", "judged"):
        made[name] = tmp_path / name
        made[name].mkdir()
    context = TaskContext(work=tmp_path)
    data = pipeline.folder("judge_embedder.real.data")
    assert judges.embed_real_images(config, {"data": data}, made["real"], context) == {"feature_dim": 27}
    features_of_real = load_tensors(made["real"] / "features.safetensors")
    uneven = {key: value[1:] if key.startswith("test") else value for key, value in features_of_real.items()}
    save_tensors(made["real"] / "features.safetensors", uneven)  # the first person has one test image less
    inputs = {"real": made["real"], "loot": pipeline.folder("loot")}
    metrics = judges.judge_by_general_features(config, inputs, made["judged"], context)
    real = {part: pipeline.tensors("judge_embedder.real.data", part) for part in ("train", "test")}
    reconstructions, coarse = reconstructed_images(pipeline.folder("loot"), None), Coarse()
    train, test, features = (coarse(floats(x["images"])) for x in (real["train"], real["test"], reconstructions))
    head = LogisticRegression(C=30.0, tol=1e-6, max_iter=1000).fit(train.double(), real["train"]["labels"])
    logits = torch.from_numpy(head.decision_function(features.double()))
    hits = (logits.argmax(1) == reconstructions["labels"]).double()
    right, taken = real["test"]["labels"][1:].numpy(), head.predict(test[1:].double())
    assert metrics["general_acc1"] == pytest.approx(hits.mean().item()) and metrics["general_acc5"] == 1.0
    assert metrics["general_real_acc"] == pytest.approx((taken == right).mean())
    assert metrics["general_real_acc_balanced"] == pytest.approx(balanced_accuracy_score(right, taken))
    assert set(metrics) == {
        "general_acc1",
        "general_acc5",
        "general_acc1_std",
        "general_real_acc",
        "general_real_acc_balanced",
    }
    distance, index = nearest(features, reconstructions["labels"], train, real["train"]["labels"])
    checked_verdicts(made["judged"], "general", logits, reconstructions["labels"], distance, index)


NAMED = [name for name, judge in JUDGES.items() if not judge.requested_by]  # the others have no settings
READS = {"loot", "data", "target", "prior"}


def examples(name, changes=()):
    """`judges` of a sweep file: this one as its example is, and what it must have beside it."""
    beside = {other: dict(JUDGES[other].example) for other in JUDGES[name].requires}
    return {**beside, name: {**JUDGES[name].example, **dict(changes)}}


def asking(name, changes=(), protocol="clean"):
    return check(tiny_sweep(protocol=protocol, judges=examples(name, changes), **SETTINGS), name)


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_declares_what_others_loop_over(name):
    judge = JUDGES[name]
    assert judge.__doc__ and judge.columns and set(judge.reads) <= READS
    assert TASKS[stage_of(name)].version == judge.work.version >= 1
    for metric in judge.columns:
        assert BY_KEY[metric.key].stage == stage_of(name)
        assert metric.ceiling is None or metric.ceiling in {one.key for one in judge.columns}
    assert set(judge.hints) <= {field.name for field in fields(judge)} | {"checkpoint_every"}


@pytest.fixture(scope="module")
def pipeline_of_judge_family(request):
    return request.getfixturevalue("clean")


@pytest.mark.parametrize("name", NAMED)
def test_it_measures_what_it_declares_the_same_every_time(name, pipeline_of_judge_family, tmp_path):
    settings = examples(name)
    stages = stages_of_a_trial("clean", judges=settings)
    if stage_of(name) not in stages.judges:
        pytest.skip(unavailable_reasons(check(tiny_sweep(judges=settings, **SETTINGS), name))[stage_of(name)])
    stage = stages.judges[stage_of(name)]
    execute_with_inputs(pipeline_of_judge_family.store, stage)
    folder = pipeline_of_judge_family.store.path(stage)
    found = json.loads((folder / "manifest.json").read_text())["metrics"]
    columns = [metric for metric in JUDGES[name].columns if metric.key in found]
    assert columns and (name not in measured() or len(columns) == len(JUDGES[name].columns))
    for metric in columns:
        value = found[metric.key]
        assert metric.null if value is None else math.isfinite(value)
        low, high = metric.range or (-math.inf, math.inf)
        assert value is None or low <= value <= high
    labels, said = pipeline_of_judge_family.tensors("loot", "images")["labels"], folder / "per_image.parquet"
    if said.is_file():  # the rate that has a ceiling is the share of hits, and so is that of each class
        rows, key = pd.read_parquet(said), next(metric.key for metric in JUDGES[name].columns if metric.ceiling)
        assert rows["class"].tolist() == labels.tolist() and found[key] == pytest.approx(rows["hit"].mean())
        classes = pd.read_parquet(folder / "per_class.parquet").set_index("class")[key]
        assert classes.to_dict() == pytest.approx(rows.groupby("class")["hit"].mean().to_dict())
    again = tmp_path / "again"
    again.mkdir()
    once_more = TASKS[stage.name].function()(
        {**stage.config, **stage.hints},
        {role: pipeline_of_judge_family.store.path(source) for role, source in stage.inputs.items()},
        again,
        context_of(tmp_path),
    )
    assert {metric.key: once_more[metric.key] for metric in columns} == {one.key: found[one.key] for one in columns}
    assert {path.name for path in again.iterdir()} == {path.name for path in folder.iterdir()} - {"manifest.json"}


def context_of(folder):
    from smoothsweep.tasks.context import TaskContext

    return TaskContext(work=folder)


SETTINGS_OF = {where[7:]: fields for _, where, fields in CASES.values() if where.startswith("judges.")}
BESIDE = {name: {} for name in ("robustness", "membership", "gradients")} | {
    "features": {"classes": 2, "perplexity": 3.0}
}
"""Judges that need nothing from outside, as small as they may be, all in one sweep with those of the pipeline."""
BESIDE["robustness"] = {"eps": 0.02, "steps": 2, "strong_steps": 2, "generations": 1}
BESIDE["membership"] = {"shadows": 4, "copies": 2, "levels": 2, "images": 5}
BESIDE["gradients"] = {"steps": 2, "per_class": 1, "truncation_psi": 1.0, "truncation_cutoff": None}
UNSEEN = {("robustness", name) for name in ("generations", "population", "strong_steps", "strong_restarts")}
UNSEEN |= {("gradients", "truncation_cutoff")} | {("membership", name) for name in ("copies", "levels", "share")}
UNSEEN |= {("membership", name) for name in ("shadows", "shadow_recipe", "trained_on_data")}
"""Those attacks find the same of a dozen images (tests/core/analysis counts what they ask); eigenfaces have one latent;
a target that has learnt nothing answers alike however it is asked; shadow models are other stages, and data may be
others only of a model that was brought in."""


def judged(**changes):
    """The trial under all of them."""
    judges = {name: dict(JUDGES[name].example) for name in ("evaluator", "embedder", "knowledge")}
    return stages_of_a_trial("clean", judges={**judges, **BESIDE, **changes})


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in BESIDE for field in SETTINGS_OF[name]])
def test_every_setting_changes_its_judge_and_no_other(name, field, pipeline_of_judge_family, travels):
    """In its configuration and, of the same inputs, in what is measured: nothing remembers the value before."""
    before, value = judged(), SETTINGS_OF[name][field]
    after = judged(**{name: {**BESIDE[name], field: value}})
    others = {stage.name: stage.fingerprint for stage in before if stage.name != stage_of(name)}
    assert others == {stage.name: stage.fingerprint for stage in after if stage.name != stage_of(name)}
    one, other = (stages.judges[stage_of(name)] for stages in (before, after))
    assert one.fingerprint != other.fingerprint
    if (name, field) not in UNSEEN:
        for source in one.inputs.values():
            execute_with_inputs(pipeline_of_judge_family.store, source)
        inputs = {role: pipeline_of_judge_family.store.path(source) for role, source in one.inputs.items()}
        travels(one.name, {**one.config, **one.hints}, {**other.config, **other.hints}, inputs)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_what_is_wrong_is_one_line_that_names_the_judge(name, protocol):
    asking(name, protocol=protocol)
    for changes in (*JUDGES[name].wrong, {"no_such_setting": 1}):
        with pytest.raises(InputError, match=rf"judges\.{name}") as caught:
            asking(name, changes, protocol)
        assert "\n" not in str(caught.value)


NAMES, SIDE = ("fid_lomma", "fid_plg"), 16


class Pooled(torch.nn.Module):
    """[N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        assert images.shape[1:] == (3, 299, 299)
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture(autouse=True)
def network(monkeypatch):
    monkeypatch.setattr(judges, "load_network", lambda config, device: Pooled().to(device))


def noise(count, classes, seed):
    """Images whose quarters differ, and labels that go round."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (count, 3, 2, 2), generator=random, dtype=torch.uint8)
    return F.interpolate(coarse, size=(299, 299)), torch.arange(count) % classes


def features(images, protocol):
    """At 299 pixels neither protocol resizes: paper shows 2x - 1 of [-1, 1], clean (bytes - 128) / 128."""
    shown = 2 * (images.float() / 127.5 - 1) - 1 if protocol == "paper" else (images.float() - 128) / 128
    return F.adaptive_avg_pool2d(shown, 2).flatten(1).double()


def frechet(a, b):
    means, covariances = [x.mean(0).numpy() for x in (a, b)], [np.cov(x.numpy().T) for x in (a, b)]
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    return ((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)


def kernel_distance(a, b):
    """The unbiased estimate over all rows: of two sets of one size every subset is the whole."""
    within = []
    for x in (a, b):
        k = (x @ x.T / x.shape[1] + 1) ** 3
        within.append((k.sum() - k.diagonal().sum()) / (len(x) * (len(x) - 1)))
    return (sum(within) - 2 * ((a @ b.T / a.shape[1] + 1) ** 3).mean()).item()


def shares(real, fake, k, protocol):
    """Precision, recall, density, coverage of one class."""
    between, inner = torch.cdist(fake, real), {"real": torch.cdist(real, real), "fake": torch.cdist(fake, fake)}
    radius = {name: distances.sort(1).values[:, k] for name, distances in inner.items()}
    inside = between <= radius["real"]
    if protocol == "paper":  # the ball of the nearest neighbour only; density by the number of reals
        precision = inside.gather(1, between.argmin(1, keepdim=True)).double().mean()
        recall = (between.min(0).values <= radius["fake"][between.argmin(0)]).double().mean()
        density = inside.double().sum() / (k * len(real))
    else:
        precision = inside.any(1).double().mean()
        recall = (between <= radius["fake"][:, None]).any(0).double().mean()
        density = inside.double().sum() / (k * len(fake))
    return torch.stack([precision, recall, density, inside.any(0).double().mean()])


def judged_of_fidelity(folder, protocol, fake, fake_labels, real, real_labels):
    save_tensors(folder / "loot" / "images.safetensors", {"images": fake, "labels": fake_labels})
    tensors = {"train_features": features(real, protocol).float(), "train_labels": real_labels}
    save_tensors(folder / "real" / "features.safetensors", tensors)
    inputs = {name: folder / name for name in ("loot", "real")}
    config = {"protocol": protocol, "neighbours": 2}
    return judges.judge_by_fidelity(config, inputs, folder / "out", TaskContext(work=folder))


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_the_reconstructions_are_measured_against_the_training_images_of_the_attacked_classes(tmp_path, protocol):
    real, real_labels = noise(24, 3, 0)
    fake, fake_labels = noise(16, 2, 1)  # of the third class nothing was reconstructed
    metrics = judged_of_fidelity(tmp_path, protocol, fake, fake_labels, real, real_labels)
    labels = real_labels[real_labels < 2]
    a, b = features(real, protocol)[real_labels < 2], features(fake, protocol)
    torch.testing.assert_close(
        load_tensors(tmp_path / "out" / "features.safetensors")["features"].double(), b, rtol=1e-4, atol=1e-5
    )
    assert metrics["fid"] == pytest.approx(frechet(a, b), rel=1e-3)
    assert metrics["kid"] == pytest.approx(kernel_distance(a, b), rel=1e-3, abs=1e-6) and metrics["kid_std"] is None
    each = [shares(a[labels == c], b[fake_labels == c], 2, protocol) for c in range(2)]
    found = [metrics[name] for name in ("precision", "recall", "density", "coverage")]
    assert found == pytest.approx(torch.stack(each).mean(0).tolist())
    assert metrics["classes_too_small"] == 0


def test_a_class_with_too_few_images_is_counted(tmp_path):
    images, labels = noise(9, 2, 1)
    labels[1:] = 0
    labels[0] = 1
    assert judged_of_fidelity(tmp_path, "clean", images, labels, images, labels)["classes_too_small"] == 1


def test_of_the_real_images_the_training_part_alone_is_embedded(tmp_path):
    images, labels = noise(6, 3, 2)
    for part, rows in (("train", slice(0, 4)), ("test", slice(4, 6))):
        save_images(tmp_path, part, ImageSet(images=images[rows], labels=labels[rows], names=("a", "b", "c")))
    config = {"network": "fid_inception", "protocol": "paper", "parts": ["train"]}
    metrics = judges.embed_real_images(config, {"data": tmp_path}, tmp_path / "out", TaskContext(work=tmp_path))
    found = load_tensors(tmp_path / "out" / "features.safetensors")
    assert metrics == {"feature_dim": 12} and set(found) == {"train_features", "train_labels"}
    torch.testing.assert_close(found["train_features"].double(), features(images[:4], "paper"), rtol=1e-4, atol=1e-5)


def as_floats(count, classes, seed, side=SIDE):
    """Floats in [-1, 1] whose quarters differ, and labels that go round."""
    coarse = torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return F.interpolate(coarse, size=(side, side)), torch.arange(count) % classes


def judged_as_published(folder, name, images, labels, hits, real, real_labels, file="images_decoded"):
    save_tensors(folder / "loot" / f"{file}.safetensors", {"images": images, "labels": labels})
    save_tensors(folder / "real" / "features.safetensors", {"train_features": real, "train_labels": real_labels})
    (folder / "verdicts").mkdir(parents=True)
    save_rows(folder / "verdicts" / "per_image.parquet", pd.DataFrame({"hit": hits}))
    inputs = {part: folder / part for part in ("loot", "real", "verdicts")}
    config = {"network": name, "side": SIDE}
    return judges.judge_by_published_fid(config, inputs, folder / "out", TaskContext(work=folder))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_evaluator_recognises_is_compared_with_the_right_real_images(tmp_path, name):
    images, labels = as_floats(30, 2, 1)
    real, real_labels = torch.rand(40, 12, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 4
    hits = [row % 3 != 0 for row in range(30)]
    metrics = judged_as_published(tmp_path, name, images, labels, hits, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS[name].made(images[torch.tensor(hits)]))
    kept = real[real_labels < 2] if name == "fid_lomma" else real  # LOMMA's: of the attacked classes
    assert metrics == {name: pytest.approx(frechet(kept.double(), shown.double()), rel=1e-3), f"{name}_images": 20}
    written = load_tensors(tmp_path / "out" / "features.safetensors")
    assert torch.equal(written["labels"], labels[torch.tensor(hits)])
    torch.testing.assert_close(written["features"], shown)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recognised", [0, 1])
def test_with_fewer_than_two_hits_there_is_none_and_the_count_says_so(tmp_path, name, recognised):
    images, labels = as_floats(4, 2, 1)
    hits = [row < recognised for row in range(4)]
    metrics = judged_as_published(tmp_path, name, images, labels, hits, torch.rand(8, 12), torch.arange(8) % 2)
    assert metrics == {name: None, f"{name}_images": recognised}


def test_of_more_than_a_batch_plgs_rest_is_left_out(tmp_path):
    images, labels = as_floats(110, 2, 3)
    real, real_labels = torch.rand(230, 12, generator=torch.Generator().manual_seed(4)), torch.arange(230) % 2
    metrics = judged_as_published(tmp_path, "fid_plg", images, labels, [True] * 110, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS["fid_plg"].made(images))
    expected = frechet(real[:200].double(), shown[:100].double())
    assert metrics == {"fid_plg": pytest.approx(expected, rel=1e-3), "fid_plg_images": 110}


@pytest.mark.parametrize("name", NAMES)
def test_of_protocol_clean_the_bytes_are_judged_at_the_targets_size(tmp_path, name):
    images, labels = as_floats(12, 2, 5, side=2 * SIDE)
    steps = images.add(1).mul(127.5).round().to(torch.uint8)
    metrics = judged_as_published(
        tmp_path, name, steps, labels, [True] * 12, torch.rand(20, 12), torch.arange(20) % 2, "images"
    )
    reduced = F.interpolate(steps.float(), size=(SIDE, SIDE), mode="bilinear", antialias=True).round().to(torch.uint8)
    written = load_tensors(tmp_path / "out" / "features.safetensors")["features"]
    torch.testing.assert_close(written, Pooled()(PUBLISHED_FIDS[name].made(reduced)))
    assert metrics[f"{name}_images"] == 12 and metrics[name] > 0
