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

from benchmarks import attack_full_ours as our_side
from benchmarks import yardstick
from benchmarks.attack_full_ours import Case, judges_of, target_of
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

_REAL = 64


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
    target = target_of(case)
    judges = judges_of(case)
    real, labels = torch.rand(_REAL, 3, size, size) * 2 - 1, torch.full((_REAL,), case.target_class)
    clock, run = Clock(), Execution(ExecutionConfig(), "cpu")
    our_side.warm_up(prior, target, run, case)
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
    ours = clock.run("ours", "stage 1", lambda: our_side.candidates(prior, target, run, case))
    differences = {"start": (start - ours).abs().max().item()}
    common = {"crop": crop, "size": size, "batch": case.batch, "draw": our_side.draw_box}
    w = clock.run(
        "yardstick",
        "stage 2",
        lambda: yardstick.optimise(official, target, start, case.target_class, steps=case.steps, lr=0.005, **common),
    )
    ours = clock.run("ours", "stage 2", lambda: our_side.optimised(prior, target, ours, run, case).w)
    differences["optimised w"] = (w - ours).abs().max().item()
    chosen, scores = clock.run(
        "yardstick",
        "stage 3",
        lambda: yardstick.select(
            official, target, w, case.target_class, selected=case.selected, repeats=2 * case.steps, **common
        ),
    )
    best, images = clock.run("ours", "stage 3", lambda: our_side.selected(prior, target, ours, run, case))
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
    cache = clock.run("ours, once per sweep", "real images", lambda: our_side.embed_real(judges, real, run, case))
    judged = clock.run("ours", "judges", lambda: our_side.judge(judges, best.order, images, cache, run, case))
    for name in ("dist_eval", "dist_face", "fid", "prdc"):
        expected = verdict[name].mean().item()
        differences[f"mean {name}, relative"] = abs(judged[name].mean().item() - expected) / max(abs(expected), 1e-12)
    clock.run(
        "yardstick",
        "knowledge",
        lambda: our_side.extract(lambda: our_side.official_images(official, chosen, case), case),
    )
    kept = images["target"][best.order]
    clock.run("ours", "knowledge", lambda: our_side.extract(lambda: kept, case, torch.channels_last))
    return clock, differences


_ATTACK = ("stage 1", "stage 2", "stage 3")
_JUDGES = (*_ATTACK, "judges")
_ALL = (*_JUDGES, "knowledge")


def report(case: Case) -> dict[str, float]:
    """Print the table of one case; returns the three ratios."""
    our_side.SIDES[:] = [case.pixels, case.pixels]
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
