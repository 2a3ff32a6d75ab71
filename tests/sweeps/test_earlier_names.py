"""Keys that sweep files of earlier versions have mean what they meant then."""

import pytest

from smoothsweep.core.attacks.registry import ATTACKS, EARLIER_NAMES, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.load import load_sweep
from tests.core.attacks.examples import example
from tests.tiny import write_tiny


def fingerprints(tmp_path, *overrides):
    sweep = load_sweep(write_tiny(tmp_path), overrides)
    return [stage.fingerprint for trial in trials_of(sweep) for stage in trial.stages]


@pytest.mark.parametrize(("earlier", "name"), EARLIER_NAMES.items())
def test_a_key_by_its_earlier_name_plans_the_same_stages(tmp_path, earlier, name):
    now = fingerprints(tmp_path, f"attack.{name}=24")
    assert fingerprints(tmp_path, f"attack.{earlier}=24") == now != fingerprints(tmp_path)
    assert fingerprints(tmp_path, f"grid.attack.{earlier}=[24]") == now


@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize(("earlier", "name"), EARLIER_NAMES.items())
def test_an_attack_of_the_library_takes_both_names_and_refuses_them_together(kind, earlier, name):
    given = {key: value for key, value in example(kind).EXAMPLE.items() if key not in (name, "kind")}
    assert make_attack(kind, **given, **{earlier: 24}) == make_attack(kind, **given, **{name: 24})
    with pytest.raises(InputError, match=f"attack.{name}: expected it once, got it as {earlier} too"):
        make_attack(kind, **given, **{name: 24, earlier: 24})
