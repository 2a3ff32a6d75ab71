"""BREP-MI's walk and its starts against values of the official code (tests/golden/black_box.npz).

What differs on purpose, in queries alone: the official code asks for a score after each accepted pass and twice before
a walk, for its log. A walk here asks for none, so that it lives with labels.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.attacks.black_box.boundary_repulsion import on_sphere, walk
from smoothsweep.core.attacks.black_box.brep_starts import first_latents
from smoothsweep.core.data.images import truncated_bytes

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "black_box.npz")
CLASSES = 10


def golden(name):
    return torch.from_numpy(np.asarray(GOLDEN[name]))


def settings(**changes):
    base = {
        "probes": 32,
        "inside": 0.75,
        "radius": 0.4,
        "expansion": 1.3,
        "clamp": 1.5,
        "patience": 6,
        "max_passes": 1000,
        "repulsion_only": True,
    }
    return SimpleNamespace(**{**base, **changes})


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


def listed(draws):
    rest = iter(draws)
    return lambda _: next(rest)


def test_points_on_the_sphere_match():
    center, normals = golden("brep_sphere_center"), golden("brep_sphere_normals")
    points, directions = on_sphere(center[None], normals[None], torch.tensor([2.6], dtype=torch.float64))
    torch.testing.assert_close(points[0], golden("brep_sphere_points"), atol=1e-6, rtol=0)
    torch.testing.assert_close(directions[0], golden("brep_sphere_directions"), atol=1e-6, rtol=0)


@pytest.mark.parametrize("run", ["brep_run0", "brep_run1", "brep_run2", "brep_allpoints", "brep_rules"])
def test_a_walk_matches(run):
    """Pass by pass. `rules`: scripted labels, 28 and 29 inside among them; a rejected pass keeps its growth."""
    rules = run == "brep_rules"
    labels_of = scripted(run) if rules else Labels()
    changed = {"radius": 2.0, "patience": 3} if rules else {}
    label, passes, normals = int(GOLDEN[f"{run}_label"]), [], listed(golden(f"{run}_normals"))
    walks = walk(
        labels_of,
        golden(f"{run}_start")[None],
        torch.tensor([label]),
        settings(**changed, repulsion_only=run != "brep_allpoints"),
        normals,
        watch=passes.append,
    )
    assert len(passes) == len(GOLDEN[f"{run}_normals"]) == int(walks.passes)
    for name, field in (("decisions", "decisions"), ("expanded", "grown"), ("accepted", "accepted")):
        found = torch.stack([getattr(one, field)[0] for one in passes])
        assert torch.equal(found.long(), golden(f"{run}_{name}").long()), name
    for name, field in (
        ("radius_after", "radii_after"),
        ("step", "steps"),
        ("direction", "directions"),
        ("candidate", "candidates"),
    ):
        found = torch.stack([getattr(one, field)[0] for one in passes])
        torch.testing.assert_close(found, golden(f"{run}_{name}"), atol=1e-5, rtol=0, msg=name)
    accepted, verdicts = golden(f"{run}_accepted").bool(), golden(f"{run}_evaluator_correct")
    assert int(GOLDEN[f"{run}_target_queries"]) == 33 * len(passes) + int(accepted.sum())
    assert torch.equal(verdicts >= 0, accepted)  # the official evaluator looks at accepted points alone
    if not rules:
        assert labels_of.shown == 33 * len(passes)
        candidates = torch.stack([one.candidates[0] for one in passes])
        assert torch.equal(evaluated(candidates)[accepted] == label, verdicts[accepted] == 1)

    iterations, radius, success, returned = GOLDEN[f"{run}_final_iter_radius_success_returned"]
    assert int(walks.iterations) == iterations
    assert walks.radii.item() == pytest.approx(radius, abs=1e-5)
    torch.testing.assert_close(walks.z[0], golden(f"{run}_final_z"), atol=1e-5, rtol=0)
    growths = (golden(f"{run}_accepted").bool() & golden(f"{run}_expanded")).nonzero()[:, 0].tolist()
    assert len(walks.growths[0]) == len(growths)
    if growths:
        torch.testing.assert_close(walks.last_growths[0], golden(f"{run}_candidate")[growths[-1]], atol=1e-5, rtol=0)
    verdict = bool(growths) and int(GOLDEN[f"{run}_evaluator_correct"][growths[-1]]) == 1
    assert verdict == bool(success) == bool(returned)  # the official success is the verdict on that very point


@pytest.mark.parametrize("run", ["brep_run0", "brep_run1", "brep_run2", "brep_allpoints", "brep_rules"])
def test_the_counters_of_a_walk_match(run):
    """Before and after every pass, by stopping a walk there."""
    rules, label = run == "brep_rules", int(GOLDEN[f"{run}_label"])
    for passes in range(1, len(GOLDEN[f"{run}_normals"]) + 1):
        changed = {"radius": 2.0, "patience": 3} if rules else {}
        walks = walk(
            scripted(run),
            golden(f"{run}_start")[None],
            torch.tensor([label]),
            settings(**changed, max_passes=passes, repulsion_only=run != "brep_allpoints"),
            listed(golden(f"{run}_normals")),
        )
        assert int(walks.grown_at) == GOLDEN[f"{run}_last_after"][passes - 1]
        if passes < len(GOLDEN[f"{run}_normals"]):
            assert int(walks.iterations) == GOLDEN[f"{run}_iter_before"][passes]
            assert int(walks.grown_at) == GOLDEN[f"{run}_last_before"][passes]
            assert walks.radii.item() == pytest.approx(GOLDEN[f"{run}_radius_before"][passes], abs=1e-5)
            assert walks.capped.item()


def searched(kind, labels_of):
    draws = golden(f"brep_{kind}_draws")
    if draws.ndim == 2:
        draws = draws[None]
    return first_latents(
        labels_of,
        lambda batch: draws[batch],
        num_classes=CLASSES,
        per_label=1,
        size=8,
        clamp=1.5,
        max_batches=len(draws),
    )


def in_order(found):
    """Labels in the order in which they were first found, and their latents."""
    hit = (found.order[:, 0] >= 0).nonzero()[:, 0]
    hit = hit[found.order[hit, 0].argsort()]
    return hit, found.z[hit, 0]


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


def evaluated(z):
    """The stand-in evaluator's label: of the image as the official code brings it to 112 pixels."""
    blocks = torch.sigmoid(z @ golden("brep_si_G_A") + golden("si_G_b")).view(-1, 3, 8, 8)
    images = truncated_bytes(F.interpolate(blocks, 64) * 2 - 1, 112)
    means = F.avg_pool2d((images + 1) / 2, 14).flatten(1)
    return ((means - 0.5) @ golden("si_E_A") @ golden("si_E_B")).argmax(1)


def test_a_whole_attack_matches():
    """Accuracy, too: the evaluator's verdict on the image at each walk's last growth."""
    labels_of = Labels()
    hit, z = in_order(searched("full_init", labels_of))
    labels, draws, passes = golden("brep_full_labels"), iter(golden("brep_full_sphere_draws")), []
    assert torch.equal(hit[:3], labels)
    assert labels_of.shown == 16 * int(GOLDEN["brep_full_init_batches"])
    hits = 0
    for label, start in zip(labels.tolist(), z[:3], strict=True):
        walks = walk(
            labels_of,
            start[None],
            torch.tensor([label]),
            settings(patience=4),
            lambda _: next(draws),
            watch=passes.append,
        )
        result = walks.last_growths[0]
        hits += result is not None and evaluated(result[None]).item() == label
    assert next(draws, None) is None
    assert hits / 3 == pytest.approx(float(GOLDEN["brep_full_accuracy"]))
    accepted = sum(int(one.accepted) for one in passes)
    assert int(GOLDEN["brep_full_queries"]) == labels_of.shown + 2 * 3 + accepted
