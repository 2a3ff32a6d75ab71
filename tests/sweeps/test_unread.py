"""A prior, or public images, that a sweep names and nothing of it reads are refused; what one attack reads is taken."""

import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
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


@pytest.mark.parametrize(
    ("attacks", "changes", "message"),
    [
        ([GMI, OWN], {}, "prior: expected none, since no attack of the sweep reads it (gmi, rlb_mi), got eigenfaces"),
        (
            [PPA],
            {"prior": {"kind": "shipped"}},
            "public: expected none, since a shipped prior is already fitted, got synthetic",
        ),
        ([PPA], {"prior": None}, "prior: expected what this attack decodes its latents with, got none"),
        ([RLB], {"prior": None}, "prior: expected what this attack decodes its latents with, got none"),
        ([GMI], {"prior": None, "public": None}, "public: expected the images that this attack learns from, got none"),
        ([OWN], {"prior": None, "public": None}, "public: expected the images that this attack learns from, got none"),
    ],
    ids=str,
)
def test_what_nothing_reads_or_something_lacks_is_one_line(tmp_path, attacks, changes, message):
    with pytest.raises(InputError) as refusal:
        expanded(tmp_path, attacks, **changes)
    assert str(refusal.value).endswith(f": {message}") and "\n" not in str(refusal.value)


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
