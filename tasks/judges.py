"""The judges of reconstructions, and what they compare with: real images, strangers, projected photographs.

config["report"] of the stage `judge_evaluator` says how a low-resolution attack's own evaluation reports its verdicts
under protocol `paper`: `of`, whose evaluation (gmi, lomma or plg), and `classes`, how many it takes together. GMI's and
KED-MI's rows of published tables were made by LOMMA's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from smoothsweep.core.analysis.projected_photographs import projected_photographs, stranger_rows
from smoothsweep.core.attacks.optimisation.descent import target_logits
from smoothsweep.core.data.images import ImageSet, aligned_corners, resize, resize_uint8, stretched, to_unit
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.accuracy import (
    accuracy_report,
    class_means,
    gmi_report,
    result_slots,
    spread_over_restarts,
    top1_accuracy,
    top5_of_last_slot,
    topk_hits,
)
from smoothsweep.core.metrics.fidelity import fid, kid, knn_distance, nearest_real, prdc_per_class, whole_batches
from smoothsweep.core.metrics.metric import FIRST
from smoothsweep.core.metrics.recognition import (
    Photographs,
    RecognitionReport,
    fit_head,
    head_logits,
    judge_projections,
    recognise,
)
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import load_embedder, own_weights
from smoothsweep.core.models.fid import PUBLISHED_FIDS, fid_input, load_inception
from smoothsweep.core.models.inference import embed_images
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import config_of, load_images, load_tensors, save_columns, save_tensors
from smoothsweep.tasks.planned_files import PlannedFile, names_a_file, planned
from smoothsweep.tasks.reconstructions import decoded_reconstructions, reconstructed_images
from smoothsweep.tasks.settings import few_strangers_error
from smoothsweep.tasks.training import load_classifier

FEATURES = "features.safetensors"
BATCH, FID_BATCH = 256, 32  # part of the numbers: a network's last digits depend on the batch
FID_SIZE = 299
HEAD_SEED = KID_SEED = 0


def embed_real_images(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors: a judge's features of all real images, made once per sweep."""
    embed = embedding_of(config, inputs, context)
    tensors = {}
    for part in config.get("parts", ("train", "test")):
        data: ImageSet = load_images(inputs["data"], part)
        tensors[f"{part}_features"] = embed(data.images)
        tensors[f"{part}_labels"] = data.labels
    save_tensors(out / FEATURES, tensors)
    return {"feature_dim": tensors["train_features"].shape[1]}


def embedding_of(config: Config, inputs: Inputs, context: TaskContext) -> Callable[[Tensor], Tensor]:
    """Images (uint8, or floats in [-1, 1]) -> the features of the judge that the configuration names."""
    name, device = config["network"], context.device
    if name == "target":
        recipe = config_of(inputs["network"])
        target = load_classifier(inputs["network"], recipe, device)
        return lambda images: embed_images(target, images, image_size=recipe["image_size"], device=device)
    if name == "fid_inception":
        return partial(fid_features, load_network(config, device), protocol=config["protocol"], context=context)
    if name in PUBLISHED_FIDS:
        shown = partial(_at_side, config["side"], device, PUBLISHED_FIDS[name].shown)
        return partial(_features, load_network(config, device), shown=shown, size=FID_BATCH, context=context)
    weights = planned(config) if names_a_file(config) else PlannedFile(own_weights(name), config.get("content"))
    embedder = weights.read(lambda path: load_embedder(name, path)).to(device)

    def whole_range(batch: Tensor) -> Tensor:  # the embedder resizes its input itself
        return (to_unit(batch) if batch.dtype == torch.uint8 else batch.float()).to(device)

    return partial(_features, embedder, shown=whole_range, size=BATCH, context=context)


@torch.no_grad()
def _features(
    network: nn.Module, images: Tensor, *, shown: Callable[[Tensor], Tensor], size: int, context: TaskContext
) -> Tensor:
    """Features float32 [N, D] on the CPU, in batches of `size`. shown: from images to what the network gets."""
    parts = []
    for done, batch in enumerate(images.split(size)):
        context.progress(done * size / len(images), f"{done * size} of {len(images)} images")
        parts.append(network(shown(batch)).float().cpu())
    return torch.cat(parts)


def load_network(config: Config, device: str) -> nn.Module:
    """The Inception network of a judge of fidelity, from the file that the configuration names."""
    name, sha256 = config["network"], config.get("sha256")
    return planned(config).read(lambda path: load_inception(name, path, sha256=sha256)).to(device)


def fid_features(network: nn.Module, images: Tensor, *, protocol: str, context: TaskContext) -> Tensor:
    """Features float32 [N, 2048] on the CPU of images uint8, or floats in [-1, 1], [N, 3, H, W]."""

    def shown(batch: Tensor) -> Tensor:
        batch = batch if batch.dtype == torch.uint8 else batch.float()
        return fid_input(batch.to(context.device), protocol)

    return _features(network, images, shown=shown, size=FID_BATCH, context=context)


def _at_side(side: int, device: str, shown: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    """What a published FID's network gets of images, which are compared at this side in pixels."""
    return shown((resize_uint8 if batch.dtype == torch.uint8 else resize)(batch.to(device), side))


def judge_by_fidelity(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors of reconstructions; returns distances to training images of attacked classes.

    One FID over all classes together; precision and its kin per class, then averaged (paper's code, sections 5.2, 5.3
    of its fact sheet). Protocol `paper` keeps the official definitions, `clean` the usual ones.
    """
    protocol, real = config["protocol"], load_tensors(inputs["real"] / FEATURES)
    made = reconstructed_images(inputs[RECONSTRUCTIONS], FID_SIZE)
    fake = fid_features(load_network(config, context.device), made["images"], protocol=protocol, context=context)
    save_tensors(out / FEATURES, {"features": fake, "labels": made["labels"]})
    attacked = torch.isin(real["train_labels"], made["labels"].unique())
    real_features, real_labels = real["train_features"][attacked], real["train_labels"][attacked]
    kernel, kernel_std = kid(real_features, fake, seed=KID_SEED)
    neighbours, too_small = prdc_per_class(
        real_features, real_labels, fake, made["labels"], k=config["neighbours"], official=protocol == "paper"
    )
    return {
        "fid": fid(real_features, fake),
        "kid": kernel,
        "kid_std": kernel_std,
        **vars(neighbours),
        "classes_too_small": len(too_small),
    }


def judge_by_published_fid(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """FID of the reconstructions that the evaluator takes for their class; None with fewer than two of them.

    config: network, a row of `PUBLISHED_FIDS`; side, in pixels, at which images are compared; path, sha256 of the
    weights. inputs: reconstructions; verdicts, of the evaluator; real, features of the private images. Writes
    features.safetensors, those of the recognised reconstructions.
    """
    name = config["network"]
    entry, made = PUBLISHED_FIDS[name], decoded_reconstructions(inputs[RECONSTRUCTIONS])
    hits = torch.from_numpy(read_rows(inputs["verdicts"] / "per_image.parquet")["hit"].to_numpy(copy=True))
    images, labels = made["images"][hits], made["labels"][hits]
    metrics: Metrics = {name: None, f"{name}_images": len(labels)}
    features = torch.zeros(0, 0)
    if len(labels):
        shown = partial(_at_side, config["side"], context.device, entry.made)
        network = load_network(config, context.device)
        features = _features(network, images, shown=shown, size=FID_BATCH, context=context)
    save_tensors(out / FEATURES, {"features": features, "labels": labels})
    if len(labels) >= 2:
        real = load_tensors(inputs["real"] / FEATURES)
        of_attacked = torch.isin(real["train_labels"], made["labels"].unique())
        reals = real["train_features"][of_attacked] if entry.attacked_only else real["train_features"]
        size = entry.whole_batches
        metrics[name] = fid(whole_batches(reals, size), whole_batches(features, size))
    return metrics


def judge_by_evaluator(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 and feature distance in the evaluation model (paper section 4.1); writes verdicts.

    config: protocol, by which the k-NN distance counts; report, where the attack's own evaluation has one.
    """
    recipe = config_of(inputs["evaluator"])
    evaluator, size = load_classifier(inputs["evaluator"], recipe, context.device), recipe["image_size"]
    embed = partial(embed_images, evaluator, image_size=size, device=context.device)
    made, real = reconstructed_images(inputs[RECONSTRUCTIONS], size), load_tensors(inputs["real"] / FEATURES)
    features, labels = embed(made["images"]), made["labels"]
    logits = evaluator.head(features.to(context.device)).cpu()
    report = accuracy_report(logits, labels)
    distance, nearest = _nearest(features, labels, real)
    _save_verdicts(out, "attack", logits, labels, distance, nearest)
    real_logits = evaluator.head(real["test_features"].to(context.device)).cpu()
    stretched_features = _of_saved_pictures(config, inputs, embed, size)
    compared, official = features, config["protocol"] == "paper"
    if stretched_features is not None:  # the published distance is theirs, and a mean over all of them
        compared, official = stretched_features, False
    knn = partial(knn_distance, compared, labels, real["train_features"], real["train_labels"], official=official)
    return {
        "attack_acc1": report.top1,
        "attack_acc5": report.top5,
        "attack_acc5_last": top5_of_last_slot(logits, labels),
        "attack_acc1_std": report.std_over_classes,
        "attack_acc1_std_slots": report.std_over_slots,
        "attack_conf": report.target_confidence,
        "dist_eval": distance.square().mean().item(),
        "dist_eval_plain": distance.mean().item(),
        "dist_knn": knn(squared=True),
        "dist_knn_plain": knn(squared=False),
        **reported(config, inputs, logits, labels, context.device),
        "evaluator_real_acc": top1_accuracy(real_logits, real["test_labels"]),
    }


def reported(config: Config, inputs: Inputs, logits: Tensor, labels: Tensor, device: str) -> Metrics:
    """The columns that this attack's report has beside the usual ones; none where the stage has no report.

    logits: the evaluator's, [N, C], of reconstructions of labels [N].
    """
    if "report" not in config:
        return {}
    of, tensors = config["report"]["of"], load_tensors(inputs["attack"] / "reconstructions.safetensors")
    # The restart or draw of every row: as the attack numbered them, or in their order.
    restarts = next((tensors[name] for name in ("restart", "draw") if name in tensors), result_slots(labels))
    spread = spread_over_restarts(
        topk_hits(logits, labels, 1),
        labels,
        restarts,
        classes=config["report"]["classes"],
        of="variance" if of == "plg" else "deviation",
    )
    metrics: Metrics = {"attack_acc1_std_batches": spread}
    if of == "gmi":
        best, anywhere = gmi_report(_logits_of_target(inputs, device), logits.argmax(1), labels)
        metrics |= {"gmi_acc": best, "gmi_acc_any": anywhere}
    return metrics


@torch.no_grad()
def _logits_of_target(inputs: Inputs, device: str) -> Tensor:
    """float32 [N]: the target's logit of the attacked class, of the reconstructions as the attack decoded it."""
    target = load_classifier(inputs["target"], config_of(inputs["target"]), device)
    made = decoded_reconstructions(inputs[RECONSTRUCTIONS])
    logits = [target_logits(target, part.to(device), None).float().cpu() for part in made["images"].split(BATCH)]
    return torch.cat(logits).gather(1, made["labels"].unsqueeze(1)).squeeze(1)


def _of_saved_pictures(
    config: Config, inputs: Inputs, embed: Callable[[Tensor], Tensor], image_size: int
) -> Tensor | None:
    """Features [N, D] of reconstructions as PLG-MI's evaluation stretches and reads them for its k-NN distance.

    None where the stage's report is another's: then the features are those of the verdicts.
    """
    if config.get("report", {}).get("of") != "plg":
        return None
    images = decoded_reconstructions(inputs[RECONSTRUCTIONS])["images"]
    pictures = [stretched((part.float() + 1) / 2).float().mul(2 / 255).sub(1) for part in images.split(BATCH)]
    return torch.cat([embed(aligned_corners(part, image_size)) for part in pictures])


def judge_by_embedder(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 of a linear head on an independent embedder, and distance to the nearest training face."""
    metrics, distance = _by_features("embedder", config, inputs, out, context)
    return {**metrics, "dist_face": distance.square().mean().item(), "dist_face_plain": distance.mean().item()}


def judge_by_general_features(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 of a linear head in features that were learnt on pictures of anything."""
    return _by_features("general", config, inputs, out, context)[0]


def _by_features(judge: str, config: Config, inputs: Inputs, out: Path, context: TaskContext) -> tuple[Metrics, Tensor]:
    """Accuracies of a linear head on features learnt elsewhere; distances [M] to the nearest image of the class."""
    made = reconstructed_images(inputs[RECONSTRUCTIONS], KINDS[config["network"]].size or None)
    labels, real = made["labels"], load_tensors(inputs["real"] / FEATURES)
    head = fit_head(real["train_features"], real["train_labels"], seed=HEAD_SEED)
    features = embedding_of(config, inputs, context)(made["images"])
    logits = head_logits(head, features)
    report = accuracy_report(logits, labels)
    distance, nearest = _nearest(features, labels, real)
    _save_verdicts(out, judge, logits, labels, distance, nearest)
    of_real, real_labels = head_logits(head, real["test_features"]), real["test_labels"]
    accuracies: Metrics = {
        f"{judge}_acc1": report.top1,
        f"{judge}_acc5": report.top5,
        f"{judge}_acc1_std": report.std_over_classes,
        f"{judge}_real_acc": top1_accuracy(of_real, real_labels),
        f"{judge}_real_acc_balanced": class_means(topk_hits(of_real, real_labels, 1), real_labels)[1].mean().item(),
    }
    return accuracies, distance


def accuracy_of_head(folder: Path, *, most: int) -> float | None:
    """Accuracy on real test images of the head that judges by the features in `folder`, an artifact of
    `embed_real_images`; None where images times features times classes exceed `most`."""
    real = load_tensors(folder / FEATURES)
    features, labels = real["train_features"], real["train_labels"]
    if features.numel() * (int(labels.max()) + 1) > most:
        return None
    head = fit_head(features, labels, seed=HEAD_SEED)
    return top1_accuracy(head_logits(head, real["test_features"]), real["test_labels"])


def _nearest(features: Tensor, labels: Tensor, real: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Distance of every reconstruction to the nearest training image of its class, and that image's row."""
    return nearest_real(features, labels, real["train_features"], real["train_labels"], squared=False)


def _save_verdicts(out: Path, judge: str, logits: Tensor, labels: Tensor, distance: Tensor, nearest: Tensor) -> None:
    """per_image.parquet (class, rank within it, predicted, hit, nearest training image) and per_class.parquet."""
    hits = topk_hits(logits, labels, 1)
    images = {
        "class": labels,
        "rank": result_slots(labels),
        "predicted": logits.argmax(1),
        "hit": hits,
        "nearest": nearest,
        "distance": distance,
    }
    save_columns(out / "per_image.parquet", images)
    classes, top1 = class_means(hits, labels)
    save_columns(out / "per_class.parquet", {"class": classes, f"{judge}_acc1": top1})


def embed_strangers(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors: a judge's features of public images, made once per sweep.

    config: network and its weights, most (images that are taken, drawn by a fixed seed), least (refuse fewer).
    """
    images = load_tensors(inputs["public"] / "images.safetensors")["images"]
    if len(images) < config.get("least", 0):
        raise few_strangers_error(len(images), config["least"])
    features = embedding_of(config, {}, context)(images[stranger_rows(len(images), config["most"])])
    save_tensors(out / FEATURES, {"features": features})
    return {"num_strangers": len(features)}


def project_photographs(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes images.safetensors: real test images (`photographs`), what the prior makes of them, and their labels.

    config: images, how many at most, as many of each class as of any other; seed, which ones; crop, of the prior's
    images, where attacks have one.
    """
    tensors, error = projected_photographs(
        load_prior(inputs["prior"]).to(context.device).eval(),
        load_images(inputs["data"], "test"),
        most=config["images"],
        crop=config.get("crop"),
        seed=config["seed"],
        device=context.device,
        on_progress=context.progress,
    )
    save_tensors(out / "images.safetensors", tensors)
    return {"num_projected": len(tensors["labels"]), "projection_error": error}


def verify(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """How many reconstructions a recogniser accepts as their person, and their ranks; writes its word on each.

    config: network and its weights; prefix, of the columns.
    """
    made = reconstructed_images(inputs[RECONSTRUCTIONS], KINDS[config["network"]].size or None)
    strangers = load_tensors(inputs["strangers"] / FEATURES)["features"]
    labels, prefix = made["labels"], config["prefix"]
    report = recognise(embedding_of(config, inputs, context)(made["images"]), labels, _photographs(inputs), strangers)
    _save_acceptance(out, labels, report, prefix)
    rates = {f"{prefix}verified_{name}": share for name, share in report.rates.items()}
    real = {f"{prefix}verified_{name}_real": share for name, share in report.real.items()}
    ranks = {f"{prefix}gallery_rank": report.rank, f"{prefix}gallery_rank_real": report.rank_real}
    return {**rates, **real, f"{prefix}verified_{FIRST}_others": report.others, **ranks}


def reach(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """What the judge says of private photographs that were projected into the prior.

    config: network and its weights; prefix and closed, of the columns.
    """
    made, real = load_tensors(inputs["projected"] / "images.safetensors"), _photographs(inputs)
    strangers, labels = load_tensors(inputs["strangers"] / FEATURES)["features"], made["labels"]
    head = fit_head(real.train, real.train_labels, seed=HEAD_SEED)
    verdicts = judge_projections(embedding_of(config, inputs, context)(made["images"]), labels, real, strangers, head)
    rows = {"class": labels, "matched": verdicts.matched}
    if verdicts.verified is not None:
        rows["verified"] = verdicts.verified
    save_columns(out / "photographs.parquet", rows)
    return {
        f"{config['closed']}_reach": verdicts.closed,
        f"{config['prefix']}verified_{FIRST}_reach": verdicts.accepted,
        f"{config['prefix']}reach_images": float(len(labels)),
    }


def _photographs(inputs: Inputs) -> Photographs:
    """The judge's features of the real images."""
    real = load_tensors(inputs["real"] / FEATURES)
    return Photographs(**{name.removesuffix("_features"): tensor for name, tensor in real.items()})


def _save_acceptance(out: Path, labels: Tensor, report: RecognitionReport, prefix: str) -> None:
    """per_image.parquet (class, rank within it, cosine, hit at 1 %) and per_class.parquet, of each rate."""
    images = {"class": labels, "rank": result_slots(labels), "cosine": report.scores}
    if not report.hits:
        save_columns(out / "per_image.parquet", images)
        return
    save_columns(out / "per_image.parquet", {**images, "hit": report.hits[FIRST]})
    rates = {f"{prefix}verified_{name}": class_means(accepts, labels)[1] for name, accepts in report.hits.items()}
    save_columns(out / "per_class.parquet", {"class": class_means(labels, labels)[0], **rates})
