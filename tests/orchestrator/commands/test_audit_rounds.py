"""Which round an earlier sweep file of an audit is, also one of an earlier version's portfolio."""

import pytest

from smoothsweep.core.audit.portfolio import portfolio
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit import work
from smoothsweep.orchestrator.commands.audit.forecast import Cost
from smoothsweep.orchestrator.commands.audit.rounds import round_of
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.yaml_reader import as_yaml, read_yaml
from tests.orchestrator.commands.owned_model import sweep_of
from tests.orchestrator.commands.test_audit_time import Clock


def tree_of(attacks, seeds=(1,)):
    """As it is read from a file again."""
    return read_yaml(as_yaml({"seeds": list(seeds), "grid": {"attack": attacks}}), "audit.yaml")


@pytest.mark.parametrize("access", ["gradients", "scores", "labels"])
def test_a_file_is_of_the_first_round_that_has_its_attacks(access):
    adapted = portfolio(access, whole=False, adapted=True)
    for reach, attacks in (("quick", portfolio(access, whole=False)), ("whole", portfolio(access, whole=True))):
        found = round_of(tree_of(attacks, (1, 2)), access, ())
        expected = "quick" if attacks == portfolio(access, whole=False) else reach
        assert (found.reach, found.seeds, found.trainings) == (expected, (1, 2), ())
    assert round_of(tree_of(adapted), access, ()).reach == ("adapted" if access == "gradients" else "quick")
    controls = [one for one in adapted if one["kind"] == "random_latents"]
    assert round_of(tree_of(controls), access, ()).reach == "quick"


def test_attacks_that_an_earlier_version_had_first_are_of_the_widest_round():
    before = [one for one in portfolio("scores", whole=True) if one["kind"] in ("rlb_mi", "selection_only")]
    assert round_of(tree_of(before), "scores", ()).reach == "whole"
    assert round_of(tree_of([{**before[0], "episodes": 100}]), "scores", ()).reach == "whole"


def test_a_page_of_an_earlier_version_is_where_a_run_begins_and_gets_no_poorer(imported, owned, monkeypatch, tmp_path):
    """All that it shows is in the store; an attack that it had not heard of is not, and would take an hour."""
    card, out = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out"
    out.mkdir()
    old = [one for one in portfolio("gradients", whole=True) if one["kind"] != "cma_es"]
    (out / "audit.yaml").write_text(sweep_of(imported, owned, tmp_path, attacks=old).read_text())
    (out / "audit.json").write_text("{}")
    clock = Clock(monkeypatch, card, first=30, training=0, seed=0)

    def cost(tree, store):
        new = any(one["kind"] == "cma_es" for one in tree["grid"]["attack"])
        return Cost(training=0, rest=3600.0 * new, done=60.0)

    monkeypatch.setattr(work, "forecast", cost)
    given = ["--data", owned[1], "--public", owned[2], "--minutes", "1", "--out", out]
    assert main(["audit", str(imported), *map(str, given)]) == 0
    assert clock.done[0].reach == "whole"
