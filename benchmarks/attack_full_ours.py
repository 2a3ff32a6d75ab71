"""Our side of `benchmarks.attack_full`: the sizes of a case, its networks of random weights, what is timed of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from benchmarks import yardstick
from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, Preprocess, draw_shared_crop
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, Pool, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.pool import decode_pool, make_candidates, sample_candidates
from smoothsweep.core.attacks.ppa.selection import Selection, select
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.models.classifiers import SmallResNet
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.seeds import generator

CLASSES = 50


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
        """The side of the prior's centre that the attack is shown."""
        return self.pixels * 800 // 1024

    def side(self, side: int) -> int:
        """A side of the paper (299, 160) at this benchmark's scale."""
        return round(self.pixels * side / 224)


def target_of(case: Case) -> nn.Module:
    """The network under attack."""
    if case.target == "resnet18":
        return torchvision.models.resnet18(weights=None, num_classes=CLASSES).eval()
    return nn.Sequential(SmallResNet(), nn.Linear(128, CLASSES)).eval()


def small_network(case: Case) -> nn.Module:
    """A stand-in for judges and surrogate: images -> 64 features, at one side half of the target's operations."""
    return SmallResNet(16, (32, 64), 64) if case.target == "resnet_small" else _ResNet10()


class _ResNet10(torchvision.models.ResNet):
    def __init__(self) -> None:
        super().__init__(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=64)


def judges_of(case: Case) -> yardstick.JudgeNetworks:
    """The evaluator, and the networks of FID and of faces."""
    side = case.side(299)
    return yardstick.JudgeNetworks(
        evaluator=small_network(case).eval(),
        head=nn.Linear(64, CLASSES),
        evaluator_size=side,
        fid=small_network(case).eval(),
        fid_size=side,
        face=small_network(case).eval(),
        face_size=case.side(160),
    )


_OPTIMISE_RULE = CropRule(scale=(0.9, 1.0))
_SELECT_RULE = CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)


def warm_up(prior: StyleGAN2, target: nn.Module, run: Execution, case: Case) -> None:
    """Run both networks once, which prepares them."""
    images = run.synthesizer(prior, case.crop)(torch.zeros(2, 1, 128))
    run.target(target)(Preprocess(size=case.pixels)(images))


def draw_box(target_class: int, stage: str, batch: int, step: int) -> Crops:
    """The crop of one step of a stage, the same for both sides."""
    return draw_shared_crop(_OPTIMISE_RULE if stage == "optimise" else _SELECT_RULE, 1, *SIDES, _source(step))


SIDES = [64, 64]  # of the images that boxes are drawn in; set for the case that runs


def _source(step: int) -> torch.Generator:
    return generator("benchmark", step)


class StatedCrops:
    """Replaces the attack's draws by those of `draw_box`, step after step."""

    def __init__(self, stage: str) -> None:
        self.stage, self.step = stage, -1

    def __call__(self, rule: CropRule, count: int, height: int, width: int, source: torch.Generator) -> Crops:
        self.step += 1
        return draw_box(0, self.stage, 0, self.step)


def candidates(prior: StyleGAN2, target: nn.Module, run: Execution, case: Case) -> Tensor:
    """The start latents [n, 1, w_dim] of stage 1."""
    shape = Preprocess(size=case.pixels, crop=case.crop)
    pool = Pool(size=case.pool, crop=case.crop)
    w, images = decode_pool(prior, pool, lambda decoded: shape(decoded.clamp(-1, 1)), run)
    part_context: Any = None  # it is short: it keeps no state
    view: Any = view_of(target, "scores", num_classes=CLASSES, image_size=case.pixels, execution=run)
    inputs = AttackInputs(protocol="paper", parts={"pool": {"images": images}})
    confidences = make_candidates({}, inputs, view, part_context).tensors["confidences"]
    return sample_candidates(confidences, w, case.target_class, CandidateConfig(candidates=case.candidates))[0]


def optimised(prior: StyleGAN2, target: nn.Module, w0: Tensor, run: Execution, case: Case) -> Any:
    """What stage 2 makes of the start latents."""
    (found,) = optimise(
        prior,
        target,
        [w0],
        [case.target_class],
        OptimiseConfig(steps=case.steps, batch_size=case.batch),
        seed=0,
        protocol="paper",
        transform=Preprocess(size=case.pixels, crop=case.crop),
        run=run,
        draw_crops=StatedCrops("optimise"),
    )
    return found


def selected(
    prior: StyleGAN2, target: nn.Module, w: Tensor, run: Execution, case: Case
) -> tuple[Selection, dict[str, Tensor]]:
    """What stage 3 keeps, and the images of all latents that the judges see."""
    (best,) = select(
        prior,
        target,
        [w],
        [case.target_class],
        SelectConfig(selected=case.selected, selection_repeats=2 * case.steps),
        seed=0,
        protocol="paper",
        transform=Preprocess(size=case.pixels, crop=case.crop),
        run=run,
        draw_crops=StatedCrops("select"),
    )
    sides = {"target": case.pixels, "evaluator": case.side(299), "face": case.side(160)}
    with torch.no_grad():
        decoded = torch.cat([run.synthesizer(prior, case.crop)(rows) for rows in w.split(case.batch)])
        return best, {name: Preprocess(size=side, crop=case.crop)(decoded) for name, side in sides.items()}


@torch.no_grad()
def embed_real(judges: yardstick.JudgeNetworks, real: Tensor, run: Execution, case: Case) -> dict[str, Tensor]:
    """Each judge's features of the real images."""
    networks = {"evaluator": judges.evaluator, "fid": judges.fid, "face": judges.face}
    sides = {"evaluator": judges.evaluator_size, "fid": judges.fid_size, "face": judges.face_size}
    return {name: _embed(run, networks[name], Preprocess(size=sides[name])(real), case) for name in networks}


@torch.no_grad()
def _embed(run: Execution, network: nn.Module, images: Tensor, case: Case) -> Tensor:
    ready = run.target(network)
    return torch.cat([ready(part.contiguous(memory_format=torch.channels_last)) for part in images.split(case.batch)])


@torch.no_grad()
def judge(
    judges: yardstick.JudgeNetworks,
    order: Tensor,
    images: dict[str, Tensor],
    real: dict[str, Tensor],
    run: Execution,
    case: Case,
) -> dict[str, Tensor]:
    """The same verdicts from the images that stage 3 kept: the evaluator sees each once, and FID and PRDC share."""
    features = _embed(run, judges.evaluator, images["evaluator"], case)
    predicted = judges.head(features).argmax(1)
    fid = _embed(run, judges.fid, images["evaluator"][order], case)
    face = _embed(run, judges.face, images["face"][order], case)
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
def official_images(synthesis: yardstick.OfficialSynthesis, w: Tensor, case: Case) -> Tensor:
    """The yardstick's images of chosen latents."""
    return yardstick.create_image(synthesis, w, case.crop, case.pixels)


def extract(images: Callable[[], Tensor], case: Case, layout: torch.memory_format = torch.contiguous_format) -> None:
    """The training of the knowledge extraction: images anew for every epoch, shared crop and mirror, one step."""
    student = nn.Sequential(small_network(case), nn.Linear(64, CLASSES)).to(memory_format=layout)
    sgd = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    labels = torch.full((case.selected,), case.target_class)
    for epoch in range(case.epochs):
        box = draw_shared_crop(CropRule(scale=(0.8, 1.0)), 1, case.pixels, case.pixels, _source(epoch))
        shown = yardstick.resized_crop(images(), box, case.pixels).clamp(-1, 1).contiguous(memory_format=layout)
        loss = nn.functional.cross_entropy(student(shown), labels)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
