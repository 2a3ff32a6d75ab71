"""BREP-MI: closed forms of its walk, its ends, and what a class without a result leaves."""

import math
from types import SimpleNamespace

import pytest
import torch

from smoothsweep.core.attacks.black_box.boundary_repulsion import walk
from smoothsweep.core.attacks.black_box.brep_mi import BREPMI
from smoothsweep.core.attacks.black_box.brep_starts import make_starts
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.priors.base import sample_latents
from smoothsweep.core.seeds import generator

SIZE, CLASSES = 8, 3
WALK = {
    "probes": 32,
    "inside": 0.75,
    "radius": 2.0,
    "expansion": 1.3,
    "clamp": 1.5,
    "patience": 5,
    "max_passes": 50,
    "repulsion_only": True,
}


class Blocks:
    """A prior whose latents are the first numbers of an image."""

    z_dim = w_dim = SIZE
    num_ws, resolution = 1, 4

    def sample_z(self, n, seed):
        return sample_latents(n, SIZE, seed)

    def map(self, z, *, psi=1.0, cutoff=None):
        return psi * z.float()[:, None]

    def synthesize(self, w):
        return torch.nn.functional.pad(w[:, 0] / 4, (0, 48 - SIZE)).view(-1, 3, 4, 4)


class Halves(torch.nn.Module):
    """Class 0 where the first latent number is below 0, else 1; class 2 never."""

    def forward(self, images):
        first = images[:, 0, 0, 0]
        return torch.stack([-first, first, torch.full_like(first, -9.0)], 1)


def look(target=None):
    execution = Execution(ExecutionConfig(), "cpu")
    return view_of(target or Halves(), "labels", num_classes=CLASSES, image_size=4, execution=execution)


def given_for(attack, protocol="clean", target=None):
    empty = SimpleNamespace(progress=lambda fraction, text: None)
    inputs = AttackInputs(protocol=protocol, prior=Blocks())
    made = make_starts(attack.parts[0].settings, inputs, look(target), empty)
    return AttackInputs(protocol=protocol, prior=Blocks(), parts={"starts": made.tensors}), made.facts


def walked(labels_of, starts, label=1, draw=None, **changes):
    draw = draw or (lambda slot: torch.randn(32, starts.shape[1], generator=generator(1, slot)))
    return walk(labels_of, starts, torch.full((len(starts),), label), SimpleNamespace(**{**WALK, **changes}), draw)


def test_the_expected_direction_points_along_the_normal_of_a_half_space():
    """From a point at the boundary: the mean of the probes outside, the repulsion, is the normal alone."""
    starts = torch.zeros(400, SIZE)
    starts[:, 0] = 0.05
    sources = [generator(3, slot) for slot in range(len(starts))]
    seen = []
    settings = SimpleNamespace(**{**WALK, "max_passes": 1})
    walk(
        lambda z: (z[:, 0] > 0).long(),
        starts,
        torch.ones(400).long(),
        settings,
        lambda slot: torch.randn(32, SIZE, generator=sources[slot]),
        watch=seen.append,
    )
    mean = seen[0].directions.mean(0)
    assert mean[0] > 0.1 and mean[1:].abs().max() < 0.1 * mean[0]
    assert (seen[0].directions.norm(dim=1) <= 1).all()


def test_a_step_that_is_always_rejected_ends_at_the_cap():
    """The probes are inside, every step leaves the class: the sphere grows in each pass, nothing is accepted."""
    walks = walked(lambda z: torch.ones(len(z)).long() if len(z) > 1 else torch.zeros(1).long(), torch.zeros(1, SIZE))
    assert walks.capped.tolist() == [True] and walks.passes.tolist() == [50]
    assert walks.iterations.tolist() == [0] and not walks.z.any() and walks.growths == [[]]
    assert walks.radii.item() == pytest.approx(2.0 * 1.3**50)


def test_a_class_that_fills_all_of_the_space_ends_at_the_cap():
    walks = walked(lambda z: torch.ones(len(z)).long(), torch.zeros(1, SIZE), max_passes=7)
    assert walks.passes.tolist() == [7] and len(walks.growths[0]) == 7
    walks = walked(lambda z: torch.ones(len(z)).long(), torch.zeros(1, SIZE), max_passes=5000)
    assert walks.passes.tolist() == [51] and walks.capped.all()  # 2 x 1.3^51: no radius overflows
    assert walks.z.isfinite().all() and 1e6 < walks.radii.item() < 1.3e6


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_a_class_that_is_never_hit_says_so_and_costs_no_query(protocol):
    attack = make_attack("brep_mi", selected=2, starts={"batch": 8, "max_batches": 3}, max_passes=5)
    inputs, facts = given_for(attack, protocol)
    assert facts == {"batches": 3.0, "labels_never_hit": 1.0}
    view = look()
    found = attack.invert(view, inputs, 2, seed=1)
    assert view.queries == 0 and found.w.shape == (2, 1, SIZE) and found.scores is None
    assert found.facts["never_hit"] == 1 and found.rows["radius"].isnan().all()
    assert all(math.isnan(found.facts[name]) for name in ("start_batch", "passes", "expansions", "radius"))
    assert set(found.facts) == set(BREPMI.facts)
    hit = attack.invert(view, inputs, 1, seed=1)
    assert hit.facts["never_hit"] == 0 and hit.facts["start_batch"] == 1 and hit.facts["passes"] > 0


class Thin(torch.nn.Module):
    """Class 1 is a shell too thin for any sphere around it."""

    def forward(self, images):
        first = 4 * images[:, 0, 0, 0]
        inside = (first > 0) & (first < 0.5)
        return torch.stack([~inside, inside, torch.zeros_like(inside)], 1).float()


def test_a_sphere_that_never_grew_is_a_failure_under_paper_and_its_end_under_clean():
    attack = make_attack("brep_mi", starts={"batch": 64}, max_passes=6)
    ends = {}
    for protocol in ("paper", "clean"):
        inputs, _ = given_for(attack, protocol, Thin())
        found = attack.invert(look(Thin()), inputs, 1, seed=1)
        assert found.facts["never_expanded"] == 1 and found.facts["never_hit"] == 0
        ends[protocol] = Thin()(Blocks().synthesize(found.w)).argmax(1).item(), found.w
    end = make_attack("brep_mi", starts={"batch": 64}, max_passes=6, result="end")
    inputs, _ = given_for(end, "paper", Thin())
    assert torch.equal(end.invert(look(Thin()), inputs, 1, seed=1).w, ends["clean"][1])
    assert ends["clean"][0] == 1 and not torch.equal(ends["paper"][1], ends["clean"][1])


def test_the_robust_point_is_one_of_the_walk_and_is_asked_for_in_labels():
    settings = {"starts": {"batch": 16}, "max_passes": 12, "radius": 0.3}
    found, queries = {}, {}
    for result in ("last_expansion", "end", "robust"):
        views = {"robust_views": 5} if result == "robust" else {}
        attack = make_attack("brep_mi", **settings, result=result, **views)
        inputs, _ = given_for(attack)
        view = look()
        found[result] = attack.invert(view, inputs, 1, seed=4)
        queries[result] = view.queries
    passes, grown = (int(found["end"].facts[name]) for name in ("passes", "expansions"))
    assert grown > 0 and queries["end"] == queries["last_expansion"] == 33 * passes
    assert queries["robust"] == 33 * passes + 5 * (grown + 1)
    assert (Halves()(Blocks().synthesize(found["robust"].w)).argmax(1) == 1).all()
