"""Members of families from other packages: the example of `examples/plugin`, built, installed, run; and broken ones."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file

from tests.commands import commands
from tests.tiny import searchable, tiny_sweep

RUN = """
import sys
from pathlib import Path
from smoothsweep.orchestrator.planning.trial import run_trial
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

sweep, store = Path(sys.argv[1]), open_store(sys.argv[2])
store.open_for_writing()
for trial in trials_of(load_sweep(sweep)):
    run_trial(trial, lambda stage: execute_with_inputs(store, stage))
"""
SMALL = tiny_sweep()["attack"]
ATTACK = {"kind": "langevin", **SMALL, "noise": 0.001}
DEFENSES = [{"alpha": 0.0}, {"kind": "label_noise", "rate": 0.3}]
SWEEP = tiny_sweep(
    data={"kind": "stripes", "classes": 3, "samples_per_class": 6},
    prior={"kind": "parts", "parts": 8, "rounds": 20},
    attack=ATTACK,
    judges={"embedder": {"name": "synthetic"}, "sharpness": {"step": 2}, "membership": {"copies": 1, "levels": 1}},
    grid={"recipe.defense": DEFENSES},
    baseline={"recipe.defense": DEFENSES[0]},
)


def beside(places, *arguments):
    """A process of its own that finds what is installed there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*places, Path(__file__).parents[1]]))}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(repository):
    """The example, built and installed into a folder of its own, which needs no network and which everybody may read,
    as packages are: the process that opens foreign models is not ours."""
    place = Path(tempfile.mkdtemp(prefix="plugin-"))
    place.chmod(0o755)
    shutil.copytree(repository / "examples" / "plugin", place / "source")
    how = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *how, "--target", str(place / "site"), str(place / "source")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield place / "site"
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def ours(installed):
    """Runs commands and programs in a process that finds the example."""
    with commands(installed) as run:
        yield run


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(SWEEP, sort_keys=False))
    return path


def test_the_command_lists_what_other_packages_bring(ours):
    listed = ours("plugins")
    assert listed.returncode == 0 and not listed.stderr
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert [row[:4] for row in rows] == [
        ["centres", "attacks", "smoothsweep-example", "0.1.0"],
        ["langevin", "attacks", "smoothsweep-example", "0.1.0"],
        ["loss_over_views", "membership", "smoothsweep-example", "0.1.0"],
        ["label_noise", "defenses", "smoothsweep-example", "0.1.0"],
        ["asked", "judges", "smoothsweep-example", "0.1.0"],
        ["sharpness", "judges", "smoothsweep-example", "0.1.0"],
        ["parts", "priors", "smoothsweep-example", "0.1.0"],
        ["stripes", "data", "smoothsweep-example", "0.1.0"],
        ["linear", "models", "smoothsweep-example", "0.1.0"],
        ["latin", "search", "smoothsweep-example", "0.1.0"],
    ]
    assert all(Path(row[4]).is_file() for row in rows)


def test_a_sweep_of_foreign_members_runs_and_its_report_says_whose_they_are(ours, sweep, tmp_path):
    store = tmp_path / "store"
    for done in (ours("-c", RUN, sweep, store), ours("report", sweep, "--store", store)):
        assert done.returncode == 0, done.stderr
    results = (store / "sweeps" / "tiny" / "report.html").read_text()
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", results))
    whose = "(plugin smoothsweep-example 0.1.0)"
    assert facts["Attack"].startswith("Langevin Plug") and facts["Attack"].endswith(whose)
    assert facts["Prior"] == f"parts {whose}" and facts["Private data"].startswith(f"stripes {whose}, 3 classes")
    assert facts["Defense"] == f"label noise {whose}" and f"label noise {whose} rate" not in results
    assert "label noise rate\u00a00.3" in results and f"sharpness {whose}" in results
    told = [json.loads(path.read_text()) for path in (store / "judge_membership").glob("*/manifest.json")]
    assert len(told) == 2 and all(one["config"]["plugins"] == ["smoothsweep-example 0.1.0"] for one in told)
    assert all(0 <= one["metrics"]["membership_loss_over_views_auc"] <= 1 for one in told)
    assert f"loss, mean over image and mirror image {whose}" in results
    for kind in ("attack", "judge_sharpness"):
        made = [json.loads(path.read_text()) for path in (store / kind).glob("*/manifest.json")]
        assert len(made) == 2 and all(one["config"]["plugin"] == "smoothsweep-example 0.1.0" for one in made), kind
    [prior] = [json.loads(path.read_text()) for path in (store / "prior").glob("*/manifest.json")]
    assert prior["config"]["plugin"] == "smoothsweep-example 0.1.0" and prior["metrics"]["z_dim"] == 8
    data = [json.loads(path.read_text()) for path in (store / "data").glob("*/manifest.json")]
    counts = {one["metrics"]["num_train"]: one["config"]["plugin"] for one in data}  # judges compare with all
    assert counts == {18: "smoothsweep-example 0.1.0", 24: "smoothsweep-example 0.1.0"}
    targets = [json.loads(path.read_text())["config"]["defense"] for path in (store / "target").glob("*/manifest.json")]
    assert {one["kind"]: one.get("plugin") for one in targets} == {
        "label_smoothing": None,
        "label_noise": "smoothsweep-example 0.1.0",
    }


def test_a_part_that_an_attack_of_a_plugin_brings_is_a_stage_with_its_version(ours, tmp_path):
    """It is made of the pool and of a target's scores; the attack's latents lie half way between it and the best."""
    path, store = tmp_path / "tiny.yaml", tmp_path / "store"
    attack = {"kind": "centres", "selected": 2, "pool": SMALL["pool"]}
    settings = tiny_sweep(attack=attack, judges={"embedder": {"name": "synthetic"}}, grid={}, baseline={})
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    done = ours("-c", RUN, path, store)
    assert done.returncode == 0, done.stderr

    def made(kind, file):
        [manifest] = (store / kind).glob("*/manifest.json")
        return json.loads(manifest.read_text()), load_file(manifest.parent / file)

    part, centres = made("own_centres", "w.safetensors")
    assert part["config"]["plugin"] == "smoothsweep-example 0.1.0" and part["config"]["settings"] == {"power": 1.0}
    _, pool = made("pool", "w.safetensors")
    _, scores = made("candidates", "confidences.safetensors")
    w, confidence = pool["w"].numpy(), scores["confidences"].numpy()
    label = 1
    centre = np.average(w, axis=0, weights=confidence[:, label])
    assert np.allclose(centres["w"][label].numpy(), centre, atol=1e-5)
    _, found = made("attack", "reconstructions.safetensors")
    best = w[np.argsort(-confidence[:, label])[:2]]
    mine = found["w"].numpy()[found["labels"].numpy() == label]
    assert np.allclose(mine, (centre + best) / 2, atol=1e-5)


def fake(folder, name, version, rows):
    """An installed distribution whose entry points are `rows`: family -> lines."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    text = "\n".join(f"[smoothsweep.{family}]\n{line}" for family, line in rows.items())
    (info / "entry_points.txt").write_text(text)
    return folder


SEARCH = {
    "strategy": "latin",
    "settings": {"within": 7},
    "recipes": 5,
    "objectives": {"embedder_acc1": "min"},
    "space": {"recipe.defense.alpha": {"low": -1.0, "high": 0.0}},
}
SEARCHED = """
import sys
from pathlib import Path
import yaml
from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.setup import Aims
from smoothsweep.orchestrator.search.setup import Setup, strategy
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

loaded = load_sweep(Path(sys.argv[1]))
search, found = loaded.sweep.search, []
asked = ProposalLog(loaded, open_store(sys.argv[2])).search
print(asked["plugin"], asked["settings"]["within"], search.built_settings.within)
aims = Aims(objectives=search.objectives)
given = {"recipes": search.recipes, "settings": search.built_settings}
setup = Setup(space=search.dimensions, aims=aims, identity=str, seed=1, **given)
while (proposal := strategy(search.strategy)(setup, found, {})) is not None:
    found.append(proposal)
    print(proposal.values["recipe.defense.alpha"])
"""


def test_a_strategy_of_a_plugin_proposes_and_its_version_is_part_of_the_search(ours, tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(searchable("tiny", SEARCH), sort_keys=False))
    done = ours("-c", SEARCHED, path, tmp_path / "store")
    assert done.returncode == 0, done.stderr
    source, *drawn = done.stdout.splitlines()
    assert source == "smoothsweep-example 0.1.0 7 7"
    assert sorted(int((float(alpha) + 1) * 5) for alpha in drawn) == [0, 1, 2, 3, 4]  # each fifth once


def test_a_model_of_a_plugin_is_imported_and_its_version_is_part_of_the_target(ours, tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "net.npz", weight=draw.normal(size=(4, 3 * 32 * 32)), bias=np.zeros(4))
    out, path = tmp_path / "brought", tmp_path / "tiny.yaml"
    options = ["--out", out, "--classes", "4", "--image-size", "32"]
    done = ours("import", "target", tmp_path / "net.npz", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "target.json").read_text())["architecture"] == "linear" and (out / "linear.npz").is_file()
    changed = {
        "recipe": {"imported": str(out)},
        "grid": {},
        "baseline": {},
        "judges": {"embedder": {"name": "synthetic"}},
    }
    path.write_text(yaml.safe_dump(tiny_sweep(**changed), sort_keys=False))
    done = ours("-c", CONFIGS, path)
    assert done.returncode == 0, done.stderr
    configs = json.loads(done.stdout)
    assert [one["plugin"] for one in configs["imported"]] == ["smoothsweep-example 0.1.0"]


CONFIGS = """
import json, sys
from pathlib import Path
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.sweeps.load import load_sweep

found = {}
for stage in with_ancestors([stage for trial in trials_of(load_sweep(Path(sys.argv[1]))) for stage in trial.stages]):
    found.setdefault(stage.name, []).append(dict(stage.config))
print(json.dumps(found))
"""


FAULTS = {
    "attacks": {
        "needy = odd_attacks:Needy": "",  # a part that nobody brings is told where it is named
        "broken = no_such_module:Thing": "cannot load no_such_module:Thing: ModuleNotFoundError",
        "ppa = smoothsweep.core.attacks.random_latents:RandomLatents": "smoothsweep itself both bring attacks ppa",
        "taken = odd_attacks:Taken": "expected names of parts that no other attack has, got pool",
        "unlike = odd_attacks:Unlike": "expected names of parts that begin with own_, got target",
        "zero = odd_attacks:Zero": "the default of steps: expected a whole number of at least 1, got 0",
        "typeless = odd_attacks:Typeless": "expected types that its module knows, got: name 'Nowhere' is not defined",
        "made = odd_attacks:MADE": "expected an Attack at odd_attacks:MADE, got Attack(",
        "Big-Name = odd_attacks:Fine": "expected a name of small letters, digits and _, got 'Big-Name'",
        "draws = odd_attacks:Draws": "expected names of networks that no other attack has, got critic",
        "sees = odd_attacks:Sees": "access: expected one of none, labels, scores, gradients, got 'everything'",
        "cited = odd_attacks:Cited": "expected a key of citations.bib or a BibTeX entry, got 'nobody2020nothing'",
        "ends = odd_ends:Thing": "cannot load odd_ends:Thing: SystemExit: 7",
        "ends_early = odd_package.inner:Thing": "cannot load odd_package.inner:Thing: SystemExit: 7",
        "raises = odd_raises.inner:Thing": "cannot load odd_raises.inner:Thing: Odd: nothing works",
        "place = not a place:at all": "cannot load not a place:at all: ",
        "empty =": "cannot load : ",
        "twice = smoothsweep.core.attacks.random_latents:RandomLatents": "another package both bring attacks twice",
    },
    "judges": {
        "blank = odd_attacks:Blank": "expected at least one column, got none",
        "odd = json:JSONDecoder": "expected a Judge at json:JSONDecoder",
        "twin = smoothsweep.core.judges.fidelity:Fidelity": "columns that no other judge has, got coverage, density",
    },
    "models": {
        "resnet18 = odd_attacks:Model": "expected a name that no architecture has, got 'resnet18'",
    },
    "priors": {
        "number = odd_attacks:NUMBER": "expected a dataclass of settings, got <class 'int'>",
        "plain = odd_attacks:PLAIN": "expected settings that derive from PriorSettings, got Plain",
    },
    "search": {
        "best = no_such_module:BEST": "cannot load no_such_module:BEST: ModuleNotFoundError",
    },
}
ODD = """
from dataclasses import dataclass
from smoothsweep.core.bounds import Count
from smoothsweep.core.priors.settings import PriorKind
from smoothsweep.core.attacks.shared.base import Attack, Part
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.attacks.shared.base import PartKind
from smoothsweep.core.cards import NetworkKind
from smoothsweep.core.external.base import ForeignModel

class Taken(Attack):
    own_parts = {"pool": PartKind(version=1, make="odd_attacks:make")}

class Fine(Attack):
    pass

class Draws(Attack):
    networks = {"critic": NetworkKind(config=int, network="odd_attacks:Network")}
    own_parts = {"own_shades": PartKind(version=1, make="odd_attacks:make", networks=networks)}

class Sees(Attack):
    access = "everything"

class Cited(Attack):
    cites = ("nobody2020nothing",)

class Needy(Attack):
    @property
    def parts(self):
        return (Part(name="own_nothing", needs=("target",), settings={}),)

class Blank(Judge):
    stage = "blank"

class Model(ForeignModel):
    file = "model.odd"

class Unlike(Attack):
    own_parts = {"target": PartKind(version=1, make="odd_attacks:make")}

@dataclass(frozen=True, kw_only=True)
class Zero(Attack):
    steps: Count = 0

@dataclass(frozen=True, kw_only=True)
class Typeless(Attack):
    place: "Nowhere" = None

@dataclass(frozen=True, kw_only=True)
class Plain:
    count: Count = 1

MADE = Attack()
NUMBER = PriorKind(settings=int, make="odd_attacks:make")
PLAIN = PriorKind(settings=Plain, make="odd_attacks:make")
"""
RAISES = "class Odd(BaseException): pass\nraise Odd('nothing works')"
LISTED_AND_PLANNED = """
import sys
from smoothsweep.orchestrator.cli import main
code = main(["plugins"])
for stream in (sys.stdout, sys.stderr):
    stream.write("===\\n")
print(code)
for path in sys.argv[2:]:
    print(main(["plan", path, "--store", sys.argv[1]]))
"""


def test_what_cannot_be_used_is_one_line_where_it_is_listed_and_where_it_is_named(tmp_path):
    places = [
        fake(tmp_path / "a", "odd-one", "3.1", {family: "\n".join(lines) for family, lines in FAULTS.items()}),
        fake(tmp_path / "b", "other", "1.0", {"attacks": list(FAULTS["attacks"])[-1]}),
    ]
    (tmp_path / "a" / "odd_attacks.py").write_text(ODD)
    (tmp_path / "a" / "odd_ends.py").write_text("raise SystemExit(7)")
    for package, text in (("odd_package", "import os\nraise SystemExit(7)"), ("odd_raises", RAISES)):
        (tmp_path / "a" / package).mkdir()
        (tmp_path / "a" / package / "__init__.py").write_text(text)
    named, faults = {}, [said for lines in FAULTS.values() for said in lines.values() if said]
    for family in ("attacks", "judges", "search"):  # which a sweep file names; a model's card does, too
        for line, said in FAULTS[family].items():
            name = line.partition(" ")[0]
            naming = {
                "attacks": lambda name: tiny_sweep(attack={**(SMALL if name != "needy" else {}), "kind": name}),
                "judges": lambda name: tiny_sweep(judges={name: {}}),
                "search": lambda name: searchable("tiny", {**SEARCH, "strategy": name}),
            }
            path = tmp_path / f"{name}.yaml"
            path.write_text(yaml.safe_dump(naming[family](name), sort_keys=False))
            named[str(path)] = said or "parts: expected one of pool, candidates,"
    done = beside(places, "-c", LISTED_AND_PLANNED, str(tmp_path / "store"), *named)
    listed, refused = done.stderr.split("===\n")
    assert listed.count("\n") == len(faults)
    assert all(said in listed for said in faults) and "plugin odd-one 3.1" in listed
    assert done.stdout.split("===\n")[1].split() == ["2"] * (1 + len(named))
    lines = [line for line in refused.splitlines() if not line.endswith("it is left out")]
    for said, line in zip(named.values(), lines, strict=True):
        assert said in line
