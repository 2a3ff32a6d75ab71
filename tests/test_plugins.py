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
from tiny import searchable, tiny_sweep

RUN = """
import sys
from pathlib import Path
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import run_trial
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

sweep, store = Path(sys.argv[1]), open_store(sys.argv[2])
store.open_for_writing()
for trial in trials_of(load_sweep(sweep)):
    run_trial(trial, lambda stage: execute_with_inputs(store, stage))
sys.exit(main(["report", str(sweep), "--store", sys.argv[2]]))
"""
STAGES = """
import sys
from pathlib import Path
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.load import load_sweep

for trial in trials_of(load_sweep(Path(sys.argv[1]))):
    for stage in trial.stages:
        print(stage.name, stage.fingerprint)
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


def ours(arguments, installed):
    """A command of another process that finds what is installed there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*installed, Path(__file__).parents[1]]))}
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


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(SWEEP, sort_keys=False))
    return path


def test_the_command_lists_what_other_packages_bring(installed):
    listed = ours(["-m", "smoothsweep", "plugins"], [installed])
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


def test_a_sweep_of_foreign_members_runs_and_its_report_says_whose_they_are(installed, sweep, tmp_path):
    store = tmp_path / "store"
    done = ours(["-c", RUN, str(sweep), str(store)], [installed])
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


def test_a_part_that_an_attack_of_a_plugin_brings_is_a_stage_with_its_version(installed, tmp_path):
    """It is made of the pool and of a target's scores; the attack's latents lie half way between it and the best."""
    path, store = tmp_path / "tiny.yaml", tmp_path / "store"
    attack = {"kind": "centres", "selected": 2, "pool": SMALL["pool"]}
    settings = tiny_sweep(attack=attack, judges={"embedder": {"name": "synthetic"}}, grid={}, baseline={})
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    done = ours(["-c", RUN, str(path), str(store)], [installed])
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


def test_another_version_is_another_fingerprint(installed, sweep, tmp_path):
    newer = tmp_path / "newer"
    shutil.copytree(installed, newer)
    [info] = newer.glob("*.dist-info")
    (info / "METADATA").write_text((info / "METADATA").read_text().replace("Version: 0.1.0", "Version: 0.2.0"))
    planned = {}
    for place in (installed, newer):
        done = ours(["-c", STAGES, str(sweep)], [place])
        assert done.returncode == 0, done.stderr
        planned[place] = set(done.stdout.splitlines())
    common = {line.split()[0] for line in planned[installed] & planned[newer]}
    assert not common  # the data, and all that is made of them


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


def test_a_strategy_of_a_plugin_proposes_and_its_version_is_part_of_the_search(installed, tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(searchable("tiny", SEARCH), sort_keys=False))
    done = ours(["-c", SEARCHED, str(path), str(tmp_path / "store")], [installed])
    assert done.returncode == 0, done.stderr
    source, *drawn = done.stdout.splitlines()
    assert source == "smoothsweep-example 0.1.0 7 7"
    assert sorted(int((float(alpha) + 1) * 5) for alpha in drawn) == [0, 1, 2, 3, 4]  # each fifth once


def test_a_model_of_a_plugin_is_imported_and_its_version_is_part_of_the_target(installed, tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "net.npz", weight=draw.normal(size=(4, 3 * 32 * 32)), bias=np.zeros(4))
    out, path = tmp_path / "brought", tmp_path / "tiny.yaml"
    command = ["-m", "smoothsweep", "import", "target", str(tmp_path / "net.npz"), "--out", str(out)]
    done = ours([*command, "--classes", "4", "--image-size", "32"], [installed])
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "target.json").read_text())["architecture"] == "linear" and (out / "linear.npz").is_file()
    changed = {
        "recipe": {"imported": str(out)},
        "grid": {},
        "baseline": {},
        "judges": {"embedder": {"name": "synthetic"}},
    }
    path.write_text(yaml.safe_dump(tiny_sweep(**changed), sort_keys=False))
    done = ours(["-c", CONFIGS, str(path)], [installed])
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
