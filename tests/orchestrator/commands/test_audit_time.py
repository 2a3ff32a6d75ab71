"""What an audit has time for: forecasts, budgets, seeds of quick attacks, a store that already holds an answer."""

import pytest

from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit import auditing, importing, work
from smoothsweep.orchestrator.commands.audit.forecast import Cost, forecast, timed_once, training_seconds
from smoothsweep.orchestrator.commands.audit.portfolio import audit_trainings, portfolio
from smoothsweep.orchestrator.commands.audit.rounds import FIRST
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.yaml_reader import read_yaml
from tests.foreign_classifier import SIDE
from tests.orchestrator.commands.owned_model import sweep_of


def test_a_training_is_forecast_from_a_few_of_its_steps(imported, owned, tmp_path):
    """Per epoch and image; what is in the store costs nothing."""
    tree = read_yaml(
        sweep_of(
            imported,
            owned,
            tmp_path,
            trainings=audit_trainings("resnet18", image_size=SIDE, transform_input=False, epochs=7, fix=False),
        ).read_text(),
        "audit",
    )
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    with pytest.raises(FileNotFoundError):
        forecast(tree, store)
    loaded = load_sweep(tmp_path / "audit.yaml")
    stages = {stage.name: stage for trial in trials_of(loaded) for stage in trial.stages}
    execute_with_inputs(store, stages["data"])
    asked = []

    def timed(recipe, **given):
        asked.append((recipe.architecture, recipe.epochs, given))
        return 70.0

    cost = forecast(tree, store, timed=timed)
    assert {name for name, _, _ in asked} == {"resnet18", "vgg_small"} and cost.training == 140.0
    assert (7, SIDE) in {(epochs, given["side"]) for _, epochs, given in asked}
    assert cost.without(cost).device_s == 0
    recipe = TrainingRecipe(architecture="resnet_small", epochs=4, batch_size=4, image_size=32)
    assert {timed_once(recipe, images=8, classes=2, side=16) for _ in range(3)} and timed_once.cache_info().hits >= 2
    seconds = [training_seconds(recipe, images=n, classes=2, side=16) for n in (8, 800)]
    assert 0 < seconds[0] < seconds[1]


class Clock:
    """An audit whose rounds take what they were forecast to take, in seconds, and do nothing. slow: of all attacks
    together beyond the quick ones."""

    def __init__(
        self, monkeypatch, card, *, first: float, training: float, seed: float, slow: float = 0.0, stored: float = 0.0
    ) -> None:
        """stored: device-seconds of what is in the store."""
        self.now, self.done, self.said = 0.0, [], []

        def cost(many: int, seeds: int) -> float:
            return training * many + seed * (seeds - 1)

        def do(running, one):
            running.round = one
            self.done.append(one)
            self.now += first if one is FIRST else cost(len(one.trainings), len(one.seeds))
            return 0

        fakes = {
            "START_S": 0.0,
            "wall_seconds": float,
            "open_store": str,
            "_print_result": id,
            "_warn_of_shared_pictures": lambda *_: (),
            "forecast": lambda tree, store: Cost(
                training=cost(len(tree.get("cells", [1])) - 1, len(tree["seeds"])),
                rest=slow * (len(tree["grid"]["attack"]) > len(portfolio("gradients", whole=False))),
                done=stored,
            ),
        }
        for name, fake in fakes.items():
            for module in (auditing, work):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fake)
        monkeypatch.setattr(importing.ImportedModel, "read_card", lambda model, folder: card)
        monkeypatch.setattr(work.Work, "do", do)
        monkeypatch.setattr(work.Work, "spent", property(lambda _: self.now))
        monkeypatch.setattr(work.Work, "write", lambda one, *more: self.said.extend([*one.unfit, *more]))


@pytest.mark.parametrize(
    ("minutes", "seeds", "many", "left", "short"),
    [
        (1, 1, 0, "plain training", False),  # nothing but the first answer
        (4, 1, 1, "smoothing", False),
        (20, 1, 4, "", False),
        (60, 3, 4, "", False),
        (12, 3, 4, "", True),
    ],
)
def test_what_there_is_no_time_for_is_left_out_and_said(
    imported, owned, capsys, monkeypatch, minutes, seeds, many, left, short
):
    """The first answer takes a minute, a training two, a further seed of everything one."""
    card = ImportedClassifier(imported=str(imported)).checked
    clock = Clock(monkeypatch, card, first=60, training=120, seed=60)
    given = ["--fix", "--minutes", minutes, "--seeds", seeds, "--out", imported.parent / "out"]
    people, public = map(str, owned[1:])
    assert main(["audit", str(imported), "--data", people, "--public", public, *map(str, given)]) == 0
    assert clock.done[0] is FIRST and max(len(one.trainings) for one in clock.done) == many
    said = capsys.readouterr().out
    assert said.count("to come: ") == many and said.count("Not tried: ") == 4 - many and left in said
    assert any("--seeds 3 was asked for" in line for line in clock.said) == short
    assert clock.now <= 60 * minutes or not left


@pytest.mark.parametrize(("minutes", "seeds"), [(2.5, 1), (3, 2), (4.8, 3)])
def test_time_that_the_slow_attacks_do_not_fit_into_goes_to_seeds_of_the_quick_ones(
    imported, owned, monkeypatch, minutes, seeds
):
    """The first answer takes 100 seconds, the second seed 60, the third 120; slow attacks are expected to take twice
    what was spent, and one seed tells nothing."""
    card = ImportedClassifier(imported=str(imported)).checked
    clock = Clock(monkeypatch, card, first=100, training=0, seed=60, slow=1)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", str(minutes), "--out", str(imported.parent / "out")]
    assert main(["audit", str(imported), *given]) == 0
    assert [len(one.seeds) for one in clock.done] == list(range(1, seeds + 1))
    assert {one.reach for one in clock.done} == {"quick"}


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_later_run_begins_with_all_that_the_pages_show(imported, owned, monkeypatch, tmp_path, seeds):
    """All attacks with two seeds are in the store: --seeds 3 with a minute left must not drop the slow ones."""
    card, out = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out"
    out.mkdir()
    shown = sweep_of(imported, owned, tmp_path, reach="whole", seeds=[1, 2]).read_text()
    (out / "audit.yaml").write_text(shown)
    (out / "audit.json").write_text("{}")
    clock = Clock(monkeypatch, card, first=30, training=0, seed=0)

    def cost(tree, store):
        missing = 3600.0 * (len(tree["seeds"]) > 2)
        return Cost(training=0, rest=missing, done=60.0)

    monkeypatch.setattr(work, "forecast", cost)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", "1", "--seeds", str(seeds), "--out", str(out)]
    assert main(["audit", str(imported), *given]) == 0
    assert [(len(one.seeds), one.reach) for one in clock.done] == [(2, "whole")]
    assert any("--seeds 3 was asked for" in line for line in clock.said) == (seeds == 3)


@pytest.mark.parametrize("damage", ["seeds: [1]\n", "grid: {attack: [{kind: ppa}]}\n", "a: [", ""])
def test_pages_of_something_else_begin_anew(imported, owned, monkeypatch, tmp_path, damage):
    card, out = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out"
    out.mkdir()
    (out / "audit.yaml").write_text(damage)
    (out / "audit.json").write_text("{}")
    clock = Clock(monkeypatch, card, first=100, training=0, seed=60, slow=1)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", "1", "--out", str(out)]
    assert main(["audit", str(imported), *given]) == 0
    assert clock.done == [FIRST]
