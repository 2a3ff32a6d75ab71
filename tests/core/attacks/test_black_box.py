"""Attacks that ask for answers alone: CMA-ES on scores, BREP-MI on labels."""

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.brep_mi import BREPMI, Walks, first_latents, make_starts, walk
from smoothsweep.core.attacks.cma_es import evolve, principal_space
from smoothsweep.core.attacks.gan_networks import PlainGenerator
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.attacks.training_settings import PlainGanConfig
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.base import nearest_latents, sample_latents
from smoothsweep.core.seeds import generator

SETTINGS = {"dimensions": 6, "population": 10, "sigma": 0.5, "generations": 30, "numpy_seed": 3}


def towards(goal):
    """A target that is surer of class 1 the nearer a move is to `goal`."""
    shown = []

    def ask(moves):
        shown.append(len(moves))
        logit = 12 - 3 * (moves - goal).square().sum(1)
        return torch.stack([torch.zeros_like(logit), logit, torch.zeros_like(logit)], 1).softmax(1)

    return ask, shown


def test_it_finds_the_way_and_counts_its_queries():
    goal = torch.tensor([1.0, -1, 0.5, 0, 2, -0.5])
    ask, shown = towards(goal)
    run = evolve(ask, 1, **SETTINGS)
    assert (run.move - goal).norm() < 0.3 * goal.norm() and run.confidence > 0.99
    assert sum(shown) == 1 + 10 * run.generations and max(shown) == 10
    assert run.curve == sorted(run.curve) and len(run.curve) == run.generations + 1 and run.curve[-1] == run.margin


def test_it_draws_from_its_own_seed_and_leaves_numpys_generator_alone():
    goal = torch.ones(6)
    np.random.seed(7)
    before = np.random.get_state()[1].copy()
    first, again = (evolve(towards(goal)[0], 1, **SETTINGS) for _ in range(2))
    np.random.rand(3)
    np.random.seed(7)
    assert (np.random.get_state()[1] == before).all()
    assert torch.equal(first.move, again.move) and first.curve == again.curve
    other = evolve(towards(goal)[0], 1, **{**SETTINGS, "numpy_seed": 4})
    clock = evolve(towards(goal)[0], 1, **{**SETTINGS, "numpy_seed": 0})
    assert not torch.equal(first.move, other.move)
    assert torch.equal(clock.move, evolve(towards(goal)[0], 1, **{**SETTINGS, "numpy_seed": 0}).move)


@pytest.mark.parametrize("answer", [0.5, float("nan")])
def test_where_every_image_says_the_same_it_ends_early_at_its_start(answer):
    run = evolve(lambda moves: torch.full((len(moves), 2), answer), 0, **SETTINGS)
    assert run.converged and run.generations < 30 and not run.move.any()


def test_it_leaves_nothing_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cma_signals.in").write_text('{"timeout": 0}')  # which cma would obey
    assert evolve(towards(torch.ones(6))[0], 1, **{**SETTINGS, "generations": 2}).generations == 2
    assert [path.name for path in tmp_path.iterdir()] == ["cma_signals.in"]


def test_directions_are_as_long_as_the_pool_is_wide():
    source = torch.Generator().manual_seed(0)
    w = torch.randn(4000, 3, generator=source) * torch.tensor([3.0, 0.0, 1.0]) + torch.tensor([5.0, 2, 0])
    space = principal_space(w, 64, width=1.0, slope=None)
    torch.testing.assert_close(space.basis, torch.diag(torch.tensor([3.0, 0, 1]))[[0, 2]], atol=0.1, rtol=0)
    start = torch.tensor([5.0, 2, 0])
    moved = space.around(start, torch.tensor([[0.0, 0.0], [1.0, 0.0], [9.0, -9.0]]))
    torch.testing.assert_close(moved[0], start)
    torch.testing.assert_close(moved[2], torch.tensor([8.0, 2, -1]), atol=0.2, rtol=0)  # cut to the box
    outside = torch.tensor([50.0, 2, 0])
    assert torch.equal(space.around(outside, torch.zeros(1, 2))[0], outside)  # a start holds
    with pytest.raises(InputError, match=r"attack\.pool: expected latents that differ in at least 2 directions, got 1"):
        principal_space(w[:2], 64, width=1.0, slope=None)


def test_the_box_of_leaky_latents_is_measured_before_the_activation():
    before = torch.tensor([[-2.0, 1.0], [2.0, 1.5], [-6.0, 2.0]])
    w = torch.where(before < 0, before * 0.2, before)
    space = principal_space(w, 2, width=1.0, slope=0.2)
    low, high = before.mean(0) - before.std(0, unbiased=False), before.mean(0) + before.std(0, unbiased=False)
    torch.testing.assert_close(space.low, torch.where(low < 0, low * 0.2, low))
    torch.testing.assert_close(space.high, torch.where(high < 0, high * 0.2, high))


UNITS = torch.tensor([0.05, 1.0, 20.0, 3.0])
POOL = torch.randn(200, 1, 4, generator=torch.Generator().manual_seed(0)) + 1


def in_both(found):
    """What is found, of the pool and of the pool in other units, in the pool's own."""
    return found(POOL, torch.ones(4)), found(POOL * UNITS, UNITS) / UNITS


def test_of_a_projection():
    picture = torch.randn(4, 3 * 8 * 8, generator=torch.Generator().manual_seed(1)) / 4
    wanted = (POOL[7:9, 0] + 0.3) @ picture

    def projected(pool, units):
        def synthesize(w):
            return ((w[:, 0] / units) @ picture).view(-1, 3, 8, 8)

        return nearest_latents(synthesize, wanted.view(-1, 3, 8, 8), pool, steps=6)

    own, other = in_both(projected)
    torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-3)
    assert (own - POOL[7:9]).abs().max() > 0.01


GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "black_box.npz")
SIZE, CLASSES = 8, 3


def golden(name):
    return torch.from_numpy(np.asarray(GOLDEN[name]))


def settings(**changes):
    usual = {"probes": 32, "inside": 0.75, "radius": 2.0, "expansion": 1.3, "clamp": 1.5}
    ends = {"patience": 5, "max_passes": 50, "repulsion_only": True}
    return SimpleNamespace(**{**usual, **ends, **changes})


def of_run(run, **changes):
    """The settings of a golden walk."""
    own = {"radius": 2.0, "patience": 3} if run == "brep_rules" else {"radius": 0.4, "patience": 6}
    return settings(**{**own, "max_passes": 1000, "repulsion_only": run != "brep_allpoints", **changes})


class Labels:
    """The stand-in generator and target; counts what it was shown."""

    def __init__(self):
        self.shown = 0

    def __call__(self, z):
        self.shown += len(z)
        blocks = torch.sigmoid(z @ golden("brep_si_G_A") + golden("si_G_b"))
        return (torch.tanh((blocks - 0.5) @ golden("si_T0_A")) @ golden("si_T0_B")).argmax(1)


def scripted(run):
    """The labels of the golden passes, whatever is shown."""
    script = []
    for decisions, accepted in zip(golden(f"{run}_decisions"), golden(f"{run}_accepted"), strict=True):
        script += [decisions == 1, torch.tensor([bool(accepted)])]
    label, rest = int(GOLDEN[f"{run}_label"]), iter(script)
    return lambda z: torch.where(next(rest), label, label + 1)


@pytest.mark.parametrize("run", ["brep_run0", "brep_run1", "brep_run2", "brep_allpoints", "brep_rules"])
def test_a_walk_matches(run):
    """Pass by pass. `rules`: scripted labels, 28 and 29 inside among them; a rejected pass keeps its growth."""
    rules, label = run == "brep_rules", int(GOLDEN[f"{run}_label"])
    labels_of = scripted(run) if rules else Labels()
    walks = Walks(labels_of, golden(f"{run}_start")[None], torch.tensor([label]), of_run(run))
    passes, counters = [], []
    for normals in golden(f"{run}_normals"):
        before = walks.iterations.item(), walks.grown_at.item(), walks.radii.item()
        passes.append(walks.advance(walks.going(), normals[None]))
        counters.append([*before, walks.grown_at.item()])
    assert len(walks.going()) == 0 and int(walks.passes) == len(passes)
    names = ("iter_before", "last_before", "radius_before", "last_after")
    expected = torch.stack([golden(f"{run}_{name}").double() for name in names], 1)
    torch.testing.assert_close(torch.tensor(counters, dtype=torch.float64), expected, atol=1e-5, rtol=0)
    for name, field in (("decisions", "decisions"), ("expanded", "grown"), ("accepted", "accepted")):
        found = torch.stack([one[field][0] for one in passes])
        assert torch.equal(found.long(), golden(f"{run}_{name}").long()), name
    for name, field in (
        ("radius_after", "radii_after"),
        ("step", "steps"),
        ("direction", "directions"),
        ("candidate", "candidates"),
    ):
        found = torch.stack([one[field][0] for one in passes])
        torch.testing.assert_close(found, golden(f"{run}_{name}"), atol=1e-5, rtol=0, msg=name)
    accepted = golden(f"{run}_accepted").bool()
    assert int(GOLDEN[f"{run}_target_queries"]) == 33 * len(passes) + int(accepted.sum())
    assert rules or labels_of.shown == 33 * len(passes)

    iterations, radius, _, _ = GOLDEN[f"{run}_final_iter_radius_success_returned"]
    assert int(walks.iterations) == iterations
    assert walks.radii.item() == pytest.approx(radius, abs=1e-5)
    torch.testing.assert_close(walks.z[0], golden(f"{run}_final_z"), atol=1e-5, rtol=0)
    growths = (accepted & golden(f"{run}_expanded")).nonzero()[:, 0].tolist()
    assert len(walks.growths[0]) == len(growths)
    if growths:
        torch.testing.assert_close(walks.growths[0][-1], golden(f"{run}_candidate")[growths[-1]], atol=1e-5, rtol=0)


def searched(kind, labels_of):
    draws = golden(f"brep_{kind}_draws")
    if draws.ndim == 2:
        draws = draws[None]
    ends = {"size": 8, "clamp": 1.5, "max_batches": len(draws)}
    return first_latents(labels_of, lambda batch: draws[batch], num_classes=10, per_label=1, **ends)[0]


def in_order(found):
    """Labels in the order in which they were first found, and their latents."""
    hit = (found["order"][:, 0] >= 0).nonzero()[:, 0]
    hit = hit[found["order"][hit, 0].argsort()]
    return hit, found["z"][hit, 0]


@pytest.mark.parametrize("kind", ["init_untargeted", "init_targeted"])
def test_the_first_latents_match(kind):
    """The official searches end at five labels, and at labels 2 to 5; this one looks for all, in the same order."""
    labels_of = Labels()
    hit, z = in_order(searched(kind, labels_of))
    if kind == "init_targeted":
        wanted = (hit >= 2) & (hit <= 5)
        hit, z = hit[wanted], z[wanted]
    labels = golden(f"brep_{kind}_labels")
    assert torch.equal(hit[: len(labels)], labels)
    assert torch.equal(z[: len(labels)], golden(f"brep_{kind}_points"))
    assert labels_of.shown == int(GOLDEN[f"brep_{kind}_queries"])


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


def walked(labels_of, **changes):
    source = generator(1)
    draw = partial(torch.randn, 32, SIZE, generator=source)
    return walk(labels_of, torch.zeros(1, SIZE), torch.ones(1).long(), settings(**changes), lambda slot: draw())


def test_a_class_that_fills_all_of_the_space_ends_at_the_cap():
    walks = walked(lambda z: torch.ones(len(z)).long(), max_passes=7)
    assert walks.passes.tolist() == [7] and len(walks.growths[0]) == 7
    walks = walked(lambda z: torch.ones(len(z)).long(), max_passes=5000)
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


SMALL = {
    "rlb_mi": {"episodes": 20, "minibatch": 12, "hidden": 8, "selected": 2},
    "brep_mi": {"selected": 2, "starts": {"batch": 16, "max_batches": 2}, "probes": 8, "patience": 3, "max_passes": 5},
}
GAN = {"width": 2, "z_dim": 12, "epochs": 3}


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    return PlainGenerator(PlainGanConfig(resolution=32, z_dim=12, width=2)).eval().requires_grad_(False)


@pytest.mark.parametrize("kind", SMALL)
def test_the_part_decodes_as_the_same_network_as_a_prior_does(kind, decoder):
    target = build_classifier("resnet_small", 3, protocol="clean", seed=1).eval().requires_grad_(False)
    found = []
    for own in ({}, {"generator": "general_gan", "gan": GAN}):
        attack = make_attack(kind, **SMALL[kind], **own)
        view = view_of(
            target, attack.access, num_classes=3, image_size=32, execution=Execution(ExecutionConfig(), "cpu")
        )
        networks = {"general_gan": {"generator": decoder}} if own else {}
        inputs = AttackInputs(protocol="paper", prior=None if own else decoder, networks=networks)
        parts = {}
        if attack.parts and attack.parts[-1].name == "starts":
            quiet = SimpleNamespace(progress=lambda fraction, text: None)
            parts = {"starts": make_starts(attack.parts[-1].settings, inputs, view, quiet).tensors}
        inputs = AttackInputs(protocol="paper", prior=inputs.prior, networks=networks, parts=parts)
        found.append(attack.invert(view, inputs, 1, seed=7))
    assert torch.equal(found[0].w, found[1].w) and found[1].w.shape == (2, 1, 12)
