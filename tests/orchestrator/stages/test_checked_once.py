"""Each distinct part of a plan is checked once; every trial has the stages that it has alone."""

from tiny import write_tiny

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.sweeps.load import load_sweep

GRID = {"recipe.defense.alpha": [0.0, -0.2], "recipe.lr": [0.001, 0.002]}


def test_every_fingerprint_is_the_one_of_a_trial_made_alone(tmp_path):
    """All trials planned together, in whatever order; and each made anew, with nothing remembered of another."""
    trials = trials_of(load_sweep(write_tiny(tmp_path, grid=GRID, baseline={}, seeds=[1, 2, 3])))
    make_plan(trials, LocalStore(root=tmp_path / "store"))
    for trial in trials:
        alone = Trial(cell=trial.cell, seed=trial.seed)
        assert [(s.name, s.fingerprint) for s in alone.stages] == [(s.name, s.fingerprint) for s in trial.stages]
    assert len({trial.id for trial in trials}) == 12


def test_a_setting_that_only_one_seed_of_one_cell_has_wrong_is_found(tmp_path, capsys):
    """The check that is left out for further seeds is left out for no other cell."""
    grid = {"recipe.defense": [{"alpha": 0.0}, {"kind": "dp_sgd", "noise": 1.0}], "recipe.batch_size": [16, 33]}
    path = write_tiny(tmp_path, grid=grid, baseline={}, seeds=[1, 2])
    assert main(["plan", str(path), "--store", str(tmp_path / "store")]) == 2
    assert "a batch_size of at most the 32 images, got 33" in capsys.readouterr().err


def test_the_work_of_a_plan_grows_as_its_trials_do(tmp_path, monkeypatch):
    """Calls counted, not seconds: of ten times the seeds ten times the stages, and no more settings checked."""
    from smoothsweep.tasks import settings

    checks, make = [], settings.recipe_from
    monkeypatch.setattr(settings, "recipe_from", lambda config: checks.append(1) or make(config))
    seen = []
    for number in (3, 30):
        path = write_tiny(tmp_path, grid=GRID, baseline={}, seeds=list(range(number)))
        checks.clear()
        assert main(["plan", str(path), "--store", str(tmp_path / "store"), "--json"]) == 0
        seen.append(len(checks))
    assert seen[0] == seen[1] and seen[0] <= 4 * 4  # four cells: target, evaluator, surrogate


def test_of_cells_that_differ_each_distinct_part_is_checked_once(tmp_path, monkeypatch):
    """Eight cells: four recipes under two attacks. What is made of an attack is looked at for each of the two."""
    from smoothsweep.tasks import settings

    trained, attacks = [], []
    make_recipe, make_attack = settings.recipe_from, settings.attack_of
    monkeypatch.setattr(settings, "recipe_from", lambda config: trained.append(1) or make_recipe(config))
    monkeypatch.setattr(settings, "attack_of", lambda config: attacks.append(1) or make_attack(config))
    path = write_tiny(tmp_path, grid={**GRID, "attack.steps": [2, 3]}, baseline={}, seeds=[1, 2, 3], classes=[0, 2])
    assert main(["plan", str(path), "--store", str(tmp_path / "store"), "--json"]) == 0
    assert len(trained) == 4 + 2 and len(attacks) == 2  # targets; evaluator, surrogate


def test_a_check_looks_at_no_input_but_those_it_says(tmp_path):
    """What it is not shown it cannot have looked at: the refusals of the whole inputs are those of what it names."""
    from smoothsweep.tasks.registry import TASKS

    judges = {
        "evaluator": {"architecture": "vgg_small", "image_size": 32, "pretrained": False},
        "robustness": {},
        "features": {"classes": 2, "perplexity": 3},
        "embedder": {"name": "synthetic"},
    }
    changes = {"grid": {"recipe.poison": [None, {"kind": "badnets"}]}, "baseline": {}, "judges": judges}
    plan = make_plan(trials_of(load_sweep(write_tiny(tmp_path, **changes))), LocalStore(root=tmp_path / "store"))
    met = set()
    for stage in plan.stages:
        kind, looked = TASKS[stage.name], set()
        if kind.check is None:
            continue

        class Watched(dict):
            def __getitem__(self, name, looked=looked):
                looked.add(name)
                return super().__getitem__(name)

            def __contains__(self, name, looked=looked):
                looked.add(name)
                return super().__contains__(name)

            def get(self, name, default=None, looked=looked):
                looked.add(name)
                return super().get(name, default)

        module, _, name = kind.check.partition(":")
        inputs = Watched({role: {**one.config, **one.hints} for role, one in stage.inputs.items()})
        getattr(__import__(module, fromlist=[name]), name)({**stage.config, **stage.hints}, inputs)
        assert looked <= set(kind.check_reads), stage.name
        met |= looked
    assert met == {"data", "poison", "public"}
