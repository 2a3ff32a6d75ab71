"""The whole attack and its judges against the yardstick: `python -m benchmarks.attack_full --pixels 64|128`.

Prior and target have random weights, which cost what trained ones do. The proportions are the paper's: half as many
steps as views of stage 3, a quarter of the candidates kept, crop 800 of 1024, 64 real images of a class, a prior of six
times the target's operations (6.5 there), judges and surrogate of a half, an eighth and a quarter of them. `--target
resnet18` makes the target as heavy as the prior instead. Both sides run stage by stage in turn on one thread, and what
is compared is process CPU time. `--paper` is for a GPU, see `benchmarks.attack_paper`. Needs torch, torchvision and
numpy alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from benchmarks import yardstick
from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, Preprocess, draw_shared_crop
from smoothsweep.core.attacks.optimisation.seeds import generator
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PoolConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise, select
from smoothsweep.core.attacks.ppa.pool import decode_pool, sample_candidates, score_pool
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.small import SmallResNet
from smoothsweep.core.priors.card import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

_OPTIMISE_RULE = CropRule(scale=(0.9, 1.0))
_SELECT_RULE = CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)
_CLASSES = 50
_REAL = 64


@dataclass(frozen=True, kw_only=True)
class Case:
    """pixels: side of prior and target; batch: the paper's 25; epochs: of the knowledge extraction."""

    pixels: int
    target: str = "resnet_small"
    steps: int = 25
    batch: int = 25
    candidates: int = 25
    selected: int = 6
    pool: int = 50
    epochs: int = 40
    target_class: int = 3

    @property
    def crop(self) -> int:
        return self.pixels * 800 // 1024

    def side(self, side: int) -> int:
        """A side of the paper (299, 160) at this benchmark's scale."""
        return round(self.pixels * side / 224)


@dataclass
class Clock:
    """CPU seconds by (side, part)."""

    seconds: dict[tuple[str, str], float] = field(default_factory=dict)

    def run(self, side: str, part: str, work: Callable[[], Any]) -> Any:
        """The result of `work`, whose time is added to that of the part."""
        start = time.process_time()
        result = work()
        self.seconds[side, part] = self.seconds.get((side, part), 0.0) + time.process_time() - start
        return result


def measure(case: Case) -> tuple[Clock, dict[str, float]]:
    """Times of both sides, and the largest differences of what they found."""
    torch.manual_seed(0)
    size, crop = case.pixels, case.crop
    config = StyleGAN2Config(
        resolution=size, z_dim=128, w_dim=128, mapping_layers=2, channel_base=32 * size, channel_max=128
    )
    prior = StyleGAN2(config).requires_grad_(False)
    target = _target(case)
    judges = _judges(case)
    real, labels = torch.rand(_REAL, 3, size, size) * 2 - 1, torch.full((_REAL,), case.target_class)
    clock, run = Clock(), Execution(ExecutionConfig(), "cpu")
    _warm_up(prior, target, run, case)
    official = yardstick.OfficialSynthesis(prior)

    start = clock.run(
        "yardstick",
        "stage 1",
        lambda: yardstick.find_candidates(
            prior,
            official,
            target,
            [case.target_class],
            pool=case.pool,
            candidates=case.candidates,
            crop=crop,
            size=size,
            batch=case.batch,
        ),
    )
    ours = clock.run("ours", "stage 1", lambda: _candidates(prior, target, run, case))
    differences = {"start": (start - ours).abs().max().item()}
    common = {"crop": crop, "size": size, "batch": case.batch, "draw": _draw_box}
    w = clock.run(
        "yardstick",
        "stage 2",
        lambda: yardstick.optimise(official, target, start, case.target_class, steps=case.steps, lr=0.005, **common),
    )
    ours = clock.run("ours", "stage 2", lambda: _optimise(prior, target, ours, run, case).w)
    differences["optimised w"] = (w - ours).abs().max().item()
    chosen, scores = clock.run(
        "yardstick",
        "stage 3",
        lambda: yardstick.select(
            official, target, w, case.target_class, selected=case.selected, repeats=2 * case.steps, **common
        ),
    )
    best = clock.run("ours", "stage 3", lambda: _select(prior, target, ours, run, case))
    differences["scores"] = (scores - best.all_scores).abs().max().item()
    chosen_labels = torch.full((len(chosen),), case.target_class)
    verdict = clock.run(
        "yardstick",
        "judges",
        lambda: yardstick.judge(
            official,
            judges,
            w,
            chosen,
            chosen_labels,
            real,
            labels,
            candidates=case.candidates,
            crop=crop,
            batch=case.batch,
        ),
    )
    cache = clock.run("ours, once per sweep", "real images", lambda: _embed_real(judges, real, run, case))
    judged = clock.run("ours", "judges", lambda: _judge(judges, best, cache, run, case))
    for name in ("dist_eval", "dist_face", "fid", "prdc"):
        expected = verdict[name].mean().item()
        differences[f"mean {name}, relative"] = abs(judged[name].mean().item() - expected) / max(abs(expected), 1e-12)
    clock.run("yardstick", "knowledge", lambda: _extract(lambda: _official_images(official, chosen, case), case))
    kept = best.images["target"][best.order]
    clock.run("ours", "knowledge", lambda: _extract(lambda: kept, case, torch.channels_last))
    return clock, differences


def _warm_up(prior: StyleGAN2, target: nn.Module, run: Execution, case: Case) -> None:
    images = run.synthesizer(prior, case.crop)(torch.zeros(2, 1, 128))
    run.target(target)(Preprocess(size=case.pixels)(images))


def _draw_box(target_class: int, stage: str, batch: int, step: int) -> Crops:
    return draw_shared_crop(_OPTIMISE_RULE if stage == "optimise" else _SELECT_RULE, 1, *_SIDES, _source(step))


_SIDES = [64, 64]  # of the images that boxes are drawn in; set for the case that runs


def _source(step: int) -> torch.Generator:
    return generator("benchmark", step)


class _GivenCrops:
    """Replaces the attack's draws by those of `_draw_box`, step after step."""

    def __init__(self, stage: str) -> None:
        self.stage, self.step = stage, -1

    def __call__(self, rule: CropRule, count: int, height: int, width: int, source: torch.Generator) -> Crops:
        self.step += 1
        return _draw_box(0, self.stage, 0, self.step)


def _candidates(prior: StyleGAN2, target: nn.Module, run: Execution, case: Case) -> Tensor:
    pool = PoolConfig(size=case.pool, crop=case.crop, image_size=case.pixels)
    w, images = decode_pool(prior, pool, device="cpu", batch_size=case.batch, execution=run)
    confidences = score_pool(target, images, hflip=True, batch_size=case.batch, device="cpu", execution=run)
    return sample_candidates(confidences, w, case.target_class, CandidateConfig(candidates=case.candidates))[0]


def _optimise(prior: StyleGAN2, target: nn.Module, w0: Tensor, run: Execution, case: Case) -> Any:
    return optimise(
        prior,
        target,
        w0,
        case.target_class,
        OptimiseConfig(steps=case.steps, batch_size=case.batch),
        seed=0,
        protocol="paper",
        transform=Preprocess(size=case.pixels, crop=case.crop),
        device="cpu",
        draw_crops=_GivenCrops("optimise"),
        execution=run,
    )


def _select(prior: StyleGAN2, target: nn.Module, w: Tensor, run: Execution, case: Case) -> Any:
    sides = {"target": case.pixels, "evaluator": case.side(299), "face": case.side(160)}
    return select(
        prior,
        target,
        w,
        case.target_class,
        SelectConfig(selected=case.selected, selection_repeats=2 * case.steps),
        seed=0,
        protocol="paper",
        transform=Preprocess(size=case.pixels, crop=case.crop),
        device="cpu",
        draw_crops=_GivenCrops("select"),
        execution=run,
        keep={name: Preprocess(size=side, crop=case.crop) for name, side in sides.items()},
    )


def _target(case: Case) -> nn.Module:
    if case.target == "resnet18":
        return torchvision.models.resnet18(weights=None, num_classes=_CLASSES).eval()
    return nn.Sequential(SmallResNet(), nn.Linear(128, _CLASSES)).eval()


def _small_network(case: Case) -> nn.Module:
    """A stand-in for judges and surrogate: images -> 64 features, at one side half of the target's operations."""
    return SmallResNet(16, (32, 64), 64) if case.target == "resnet_small" else _ResNet10()


class _ResNet10(torchvision.models.ResNet):
    def __init__(self) -> None:
        super().__init__(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=64)


def _judges(case: Case) -> yardstick.JudgeNetworks:
    side = case.side(299)
    return yardstick.JudgeNetworks(
        evaluator=_small_network(case).eval(),
        head=nn.Linear(64, _CLASSES),
        evaluator_size=side,
        fid=_small_network(case).eval(),
        fid_size=side,
        face=_small_network(case).eval(),
        face_size=case.side(160),
    )


@torch.no_grad()
def _embed_real(judges: yardstick.JudgeNetworks, real: Tensor, run: Execution, case: Case) -> dict[str, Tensor]:
    networks = {"evaluator": judges.evaluator, "fid": judges.fid, "face": judges.face}
    sides = {"evaluator": judges.evaluator_size, "fid": judges.fid_size, "face": judges.face_size}
    return {name: _embed(run, networks[name], Preprocess(size=sides[name])(real), case) for name in networks}


@torch.no_grad()
def _embed(run: Execution, network: nn.Module, images: Tensor, case: Case) -> Tensor:
    ready = run.target(network)
    return torch.cat([ready(part.contiguous(memory_format=torch.channels_last)) for part in images.split(case.batch)])


@torch.no_grad()
def _judge(
    judges: yardstick.JudgeNetworks, best: Any, real: dict[str, Tensor], run: Execution, case: Case
) -> dict[str, Tensor]:
    """The same verdicts from the images that stage 3 kept: the evaluator sees each once, and FID and PRDC share."""
    order = best.order
    features = _embed(run, judges.evaluator, best.images["evaluator"], case)
    predicted = judges.head(features).argmax(1)
    fid = _embed(run, judges.fid, best.images["evaluator"][order], case)
    face = _embed(run, judges.face, best.images["face"][order], case)
    moments = [yardstick.moments(fid), yardstick.moments(real["fid"])]
    return {
        "unfiltered": predicted,
        "filtered": predicted[order],
        "fid": torch.stack([yardstick.frechet(*moments[0], *moments[1])]),
        "prdc": yardstick.prdc(real["fid"], fid),
        "dist_eval": torch.cdist(features[order], real["evaluator"]).square().min(1).values,
        "dist_face": torch.cdist(face, real["face"]).square().min(1).values,
    }


@torch.no_grad()
def _official_images(synthesis: yardstick.OfficialSynthesis, w: Tensor, case: Case) -> Tensor:
    return yardstick.create_image(synthesis, w, case.crop, case.pixels)


def _extract(images: Callable[[], Tensor], case: Case, layout: torch.memory_format = torch.contiguous_format) -> None:
    """The training of the knowledge extraction: images anew for every epoch, shared crop and mirror, one step."""
    student = nn.Sequential(_small_network(case), nn.Linear(64, _CLASSES)).to(memory_format=layout)
    sgd = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    labels = torch.full((case.selected,), case.target_class)
    for epoch in range(case.epochs):
        box = draw_shared_crop(CropRule(scale=(0.8, 1.0)), 1, case.pixels, case.pixels, _source(epoch))
        shown = yardstick.resized_crop(images(), box, case.pixels).clamp(-1, 1).contiguous(memory_format=layout)
        loss = nn.functional.cross_entropy(student(shown), labels)
        sgd.zero_grad()
        loss.backward()
        sgd.step()


_ATTACK = ("stage 1", "stage 2", "stage 3")
_JUDGES = (*_ATTACK, "judges")
_ALL = (*_JUDGES, "knowledge")


def report(case: Case) -> dict[str, float]:
    """Print the table of one case; returns the three ratios."""
    _SIDES[:] = [case.pixels, case.pixels]
    clock, differences = measure(case)
    seconds = clock.seconds
    print(f"{case.pixels} pixels, {case.target}: CPU seconds, yardstick / ours, ratio")
    for part in _ALL:
        yard, ours = seconds["yardstick", part], seconds["ours", part]
        print(f"  {part}: {yard:.2f} / {ours:.2f}, {yard / ours:.2f}")
    ratios = {}
    for name, parts in (
        ("attack", _ATTACK),
        ("attack and judges", _JUDGES),
        ("attack, judges and knowledge extraction", _ALL),
    ):
        yard, ours = (sum(seconds[side, part] for part in parts) for side in ("yardstick", "ours"))
        ratios[name] = yard / ours
        print(f"  {name}: {yard:.2f} / {ours:.2f}, {yard / ours:.2f}")
    cache = seconds["ours, once per sweep", "real images"]
    print(f"  embeddings of real images, ours, once per sweep (not in the sums): {cache:.2f}")
    print("  largest differences: " + ", ".join(f"{name} {value:.1e}" for name, value in differences.items()))
    return ratios


def main() -> None:
    """Read the command line and print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pixels", type=int, choices=(32, 64, 128), action="append", help="default: 64 and 128")
    parser.add_argument("--target", choices=("resnet_small", "resnet18"), default="resnet_small")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--paper", action="store_true", help="ResNet-152 and 1024 pixels, on a GPU")
    parser.add_argument("--smoke", action="store_true", help="with --paper: the same code at tiny sizes, on any device")
    arguments, _ = parser.parse_known_args()
    if arguments.paper:
        from benchmarks.attack_paper import report as report_paper

        try:
            report_paper(smoke=arguments.smoke)
        except InputError as error:
            parser.error(str(error))
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for pixels in arguments.pixels or (64, 128):
            report(Case(pixels=pixels, steps=arguments.steps, target=arguments.target))
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
