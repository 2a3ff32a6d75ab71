"""A prior, or public images, that a sweep names and nothing of it reads are refused; what one attack reads is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.sweeps.expand import LoadedSweep, check, expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_tables import departures
from tests.core.attacks.examples import example, needed

PPA = tiny_sweep()["attack"]
GMI, RLB = {"kind": "gmi", "gan": {"batch_size": 8}}, {"kind": "rlb_mi"}
OWN = {**RLB, "generator": "general_gan", "gan": {"batch_size": 8}}
JUDGES = {"evaluator": tiny_sweep()["judges"]["evaluator"]}


def expanded(tmp_path, attacks, **changes):
    raw = tiny_sweep(judges=JUDGES, **changes)
    raw["recipe"]["image_size"] = raw["judges"]["evaluator"]["image_size"] = 32
    raw["grid"], raw["attack"] = {**raw["grid"], "attack": attacks}, attacks[0]
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in raw.items() if value is not None}, sort_keys=False))
    return expand(load_sweep(path))


@pytest.mark.parametrize(
    ("attacks", "changes"),
    [
        ([GMI], {"prior": None}),
        ([GMI, OWN], {"prior": None}),
        ([PPA, GMI], {}),
        ([OWN, RLB], {}),
        ([PPA, GMI], {"prior": {"kind": "shipped"}}),  # the public images are GMI's
        ([PPA], {"prior": {"kind": "shipped"}, "public": None}),
    ],
    ids=str,
)
def test_what_one_attack_of_the_sweep_reads_is_taken(tmp_path, attacks, changes):
    assert len(expanded(tmp_path, attacks, **changes)) == 2 * len(attacks)


@pytest.mark.parametrize(("verify", "taken"), [(None, True), (True, True), (False, False)])
def test_verification_reads_the_public_images_whatever_the_prior(tmp_path, verify, taken):
    """They are its strangers, also where the prior is fitted already."""
    raw = tiny_sweep(judges={"embedder": {"name": "synthetic", "verify": verify}}, prior={"kind": "shipped"})
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    if taken:
        assert expand(load_sweep(path))
    else:
        with pytest.raises(InputError, match="public: expected none, since a shipped prior is already fitted"):
            expand(load_sweep(path))


@pytest.mark.parametrize("kind", ATTACKS)
def test_every_attack_decodes_by_what_it_reads(kind):
    """What is read includes whatever parts are made of, so that no prior is missed and none asked for in vain."""
    attack = make_attack(kind, **needed(kind))
    decoders = {decoder for _, _, decoder, _ in example(kind).DECLARED.values()}
    assert attack.decoder in decoders and set(attack.needs) <= attack.reads
    if attack.leaves_images:
        return  # which may come of no latents at all
    assert attack.decoder in attack.reads and ("prior" in attack.reads) == (attack.decoder == "prior")


SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
BADNETS = {"kind": "badnets"}


def raw(**changes):
    given = {
        "name": "t",
        "seeds": [1],
        "data": {"kind": "synthetic", "identities": 4},
        "attack": None,
        "recipe": {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "batch_size": 16},
    }
    return {**given, **changes}


def poisoned(**poison):
    return raw(recipe={**raw()["recipe"], "poison": {**BADNETS, **poison}})


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("11", "judges.robustness.eps=0.1", "judges.robustness.eps 0.1 (paper: 0.0313"),
        ("11", "judges.robustness.steps=20", "judges.robustness.steps 20 (paper: 10)"),
        ("11", "judges.robustness.images=100", "judges.robustness.images 100 (paper: "),
        ("12", "grid={recipe.poison: [{kind: badnets, size: 5}]}", "recipe.poison.size 5 (paper: 9)"),
        ("12", "grid={recipe.poison: [{kind: blended, share: 0.2}]}", "recipe.poison.share 0.2 (paper: 0.1)"),
    ],
)
def test_another_attack_or_trigger_is_a_departure(table, change, said):
    beside = ["baseline={}"] if table == "12" else []
    loaded = load_sweep(SWEEPS / f"table{table}.yaml", [change, *beside])
    settings = expand(loaded)[0].settings
    (line,) = departures(settings, loaded.sweep.paper.dataset_of(settings.data), table)
    assert line.startswith(said)


def test_imagenette_has_ten_classes_whether_the_file_says_so_or_not():
    with pytest.raises(InputError, match=r"recipe\.poison\.target: expected a class below 10, got 10"):
        load_sweep(SWEEPS / "table12.yaml", ["recipe.poison={kind: badnets, target: 10}", "grid={}", "baseline={}"])


def test_a_clean_target_is_shared_with_sweeps_that_know_of_no_poison():
    """The key's being there changes no fingerprint of what was trained before."""
    clean, planted = (Trial(cell=expand_one(given), seed=1) for given in (raw(), poisoned()))
    other = Trial(cell=expand_one(poisoned(seed=1)), seed=1)
    targets = [next(s for s in trial.stages if s.name == "target") for trial in (clean, planted, other)]
    assert "poison" not in targets[0].config and "poison" not in targets[1].config
    assert len({target.fingerprint for target in targets}) == 3


def expand_one(given):
    return expand(LoadedSweep(sweep=check(given, "s"), raw=given, intro="", source="s"))[0]
