"""Are the numbers of this checkout those of another commit?

    python tools/same_numbers.py write FOLDER [--only sweeps search ...]
    python tools/same_numbers.py compare FOLDER [--only sweeps search ...]

`write` puts one JSON file per section into FOLDER; keep it outside the checkout. `compare` makes the sections again,
prints what is missing or different, and ends with 1 if anything is. The package is that of the interpreter, so that one
copy of this file serves two checkouts (`BASE/.venv/bin/python HERE/tools/same_numbers.py write FOLDER`). Commands and
files of a store are asked where they say enough; functions are found by name, in whatever module they are. What a
section holds stands in the docstring of its function.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Facts = dict[str, Any]

TIMES = re.compile(
    r"seconds|hours|minutes|"
    r"(^|[_/ ])(time|date|host|started|ended|created|duration|eta|pid|cpu|memory|rss|cost)($|[_/ ])"
)
"""Names of columns, metrics and keys that another run of the same commit has otherwise."""

ENVIRONMENT = ("mlflow", "numpy", "optuna", "platform", "python", "ray", "torch", "torchvision")
CUT: dict[str, str] = {
    "stages prior, stylegan2 *": "a StyleGAN2 is trained by tools/weights/train_generator.py",
    **dict.fromkeys(
        [f"sweeps toy *{key}*" for key in ("about", "partly", "device_hours", "stages_of_unknown_cost")],
        "measured and rated time are two numbers of one form",
    ),
    "sweeps quickstart *": "it trains half as long, and searches fewer steps",
    "sweeps * settings judges asked": "the judge that asks a vision-language model is a plugin",
    **dict.fromkeys(("stages judge_asked, *", "demo * asked_*", "demo *reasons"), "the same"),
    **dict.fromkeys(("demo * removed*", "demo * strongest*"), "earlier names, of a version never released"),
    "demo mlflow * tags smoothsweep.hiding": "an earlier name of smoothsweep.verdict, of a version never released",
    "demo mlflow * tags mlflow.*": "who ran it and how, and the note, which is prose",
    "demo mlflow * tags smoothsweep.code": "the commit",
    "demo mlflow * tags smoothsweep.told": "a digest of sentences",
    "demo mlflow * tags smoothsweep.points": "a digest of points, which have times",
    **{f"demo mlflow * tags smoothsweep.{name}": "the environment" for name in ENVIRONMENT},
    "audit function *": "the library's audit is the command's, with its splits, seeds and threads",
}
"""What was cut or changed on purpose, and why. Keys are patterns over `section key`, `*` for anything."""

DEMO = """\
name: frozen
seeds: [1, 2]
data: {kind: synthetic, identities: 6, train_per_class: 12, test_per_class: 6, size: 32, spread: 0.8, seed: 7}
public: {kind: synthetic, identities: 120, per_identity: 1, size: 32, spread: 0.8, seed: 7}
recipe: {architecture: resnet_small, image_size: 32, pretrained: false, epochs: 6, batch_size: 12,
  augmentation: {crop_scale: [0.85, 1.0], hue: 0.0}}
prior: {kind: eigenfaces, components: 24}
attack: {kind: ppa}
judges:
  evaluator: {architecture: vgg_small, pretrained: false, image_size: 32, epochs: 6, batch_size: 12,
    augmentation: {hue: 0.0}}
  embedder: {name: synthetic}
  knowledge: {architecture: resnet_small, pretrained: false, image_size: 32, epochs: 3, lr: 0.05, momentum: 0.0,
    lr_min: 0.0}
  features: {classes: 6, perplexity: 5.0}
  gradients: {steps: 3, truncation_psi: 1.0, truncation_cutoff: null}
  robustness: {steps: 2, strong_steps: 2, generations: 1, images: 6}
  membership: {shadows: 4}
tracking: {models: none}
grid:
  recipe.defense:
    - {kind: label_smoothing, alpha: 0.0}
    - {kind: label_smoothing, alpha: -0.8, schedule: {kind: step, at: 0.2}}
  attack:
    - &ppa {kind: ppa, loss: cross_entropy, pool: {size: 60, truncation_psi: 1.0, truncation_cutoff: null},
       candidates: 4, steps: 4, lr: 0.03, batch_size: 8, selected: 2, selection_repeats: 4}
    - {<<: *ppa, loss: logit, select: {kind: augmented_margin}}
    - {kind: brep_mi, selected: 2, starts: {batch: 32, max_batches: 4}, probes: 8, patience: 5, max_passes: 10,
       truncation_psi: 1.0, truncation_cutoff: null}
    - {kind: random_latents, selected: 2, truncation_psi: 1.0, truncation_cutoff: null}
baseline: {recipe.defense: {kind: label_smoothing, alpha: 0.0}}
"""
KEPT_PLUGIN = """\
import json, os, pathlib
import tests.stage_numbers as kept
from same_numbers import artifact

def numbers_of(folder, metrics, known=kept.numbers_of):
    case = os.environ["PYTEST_CURRENT_TEST"].partition("[")[2].rpartition("]")[0]
    with pathlib.Path(os.environ["SAME_NUMBERS_LINES"]).open("a") as file:
        file.write(json.dumps([case, {**artifact(pathlib.Path(folder)), "metrics": dict(metrics)}]) + "\\n")
    return known(folder, metrics)

kept.numbers_of = numbers_of
"""
RUNGS = [{"keep": 0.5, "set": {"attack.steps": 2}}]
SEARCHES = {
    "random": {"strategy": "random", "recipes": 12},
    "halving": {"strategy": "halving", "recipes": 8, "rungs": RUNGS, "audit": 1},
    "noise_aware": {"strategy": "noise_aware", "recipes": 10, "first_seeds": 1},
}


# What of the checkout is asked


@cache
def root() -> Path:
    """The checkout that the interpreter's package is of."""
    return Path(importlib.import_module("smoothsweep.core.errors").__file__ or "").resolve().parents[1]


@cache
def named(name: str, place: str = "") -> Any:
    """A function or class of the checkout. place: part of its file's path, for a name that several files have."""
    definition = re.compile(rf"^(?:def|class) {name}\b|^{name}\b[^=\n]*= ", re.M)
    for room in ("core", "tasks", "sweeps", "orchestrator", "smoothsweep", "tests", "benchmarks"):
        for path in sorted((root() / room).rglob("*.py")):
            if place in path.as_posix() and definition.search(path.read_text(encoding="utf-8")):
                module = ".".join(path.relative_to(root()).with_suffix("").parts).removesuffix(".__init__")
                module = module if room in ("smoothsweep", "tests", "benchmarks") else f"smoothsweep.{module}"
                return getattr(importlib.import_module(module), name)
    raise SystemExit(f"same_numbers: {name}: expected a function or class of this name in {root()}, got none")


def command(*arguments: object, folder: Path) -> str:
    """What a command of the checkout prints."""
    return process([str(Path(sys.executable).with_name("smoothsweep")), *map(str, arguments)], folder)


def process(given: list[str], folder: Path, codes: tuple[int, ...] = (0,), **environment: str) -> str:
    """What a process prints. codes: exit codes that are fine; the script ends with what it said at any other."""
    found = subprocess.run(
        given, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if found.returncode not in codes:
        said = (found.stdout + found.stderr)[-3000:]
        raise SystemExit(f"same_numbers: {' '.join(given)} ended with {found.returncode}:\n{said}")
    return found.stdout


# How values are kept


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def plain(value: Any) -> Any:
    """A JSON value that is the same for the same bits; any NaN is the same."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and value != value:
        return "nan"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def columns(path: Path) -> Facts:
    """Every column of a Parquet file but those of times: its values."""
    import pandas as pd

    rows = pd.read_parquet(path)
    return {str(name): plain(rows[name].tolist()) for name in rows if not TIMES.search(str(name))}


def artifact(folder: Path) -> Facts:
    """SHA-256 of every tensor and column of an artifact, and its lists."""
    from safetensors.numpy import load_file

    found: Facts = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".safetensors":
            for key, tensor in sorted(load_file(path).items()):
                found[f"{name} {key}"] = f"{tensor.dtype} {list(tensor.shape)} {digest(tensor.tobytes())}"
        elif path.suffix == ".parquet":
            for key, values in columns(path).items():
                found[f"{name} {key}"] = f"{len(values)} {digest(json.dumps(values).encode())}"
        elif path.name in ("names.json", "classes.json"):
            found[name] = digest(path.read_bytes())
    return found


# The sections


def stage_facts(trials: Iterable[Any]) -> Facts:
    """Trial -> fingerprints of its stages; stage and fingerprint -> its version, configuration and inputs."""
    found: Facts = {"trials": {}, "stages": {}}
    for number, trial in enumerate(trials):
        found["trials"][f"{number} {trial.id}"] = [stage.fingerprint for stage in trial.stages]
        for stage in named("with_ancestors")(list(trial.stages)):
            one = stage.identity()
            kept = {name: plain(one[name]) for name in ("version", "config", "inputs")}
            found["stages"][f"{stage.name} {stage.fingerprint}"] = json.dumps(kept, sort_keys=True)
    return found


def sweeps(folder: Path) -> Facts:
    """Trials, stages, fingerprints and configurations of all shipped sweeps, whose data may be absent.

    Of a search the first trials, on made-up outcomes.
    """
    load = named("load_sweep")
    absent = named("files_may_be_absent")
    opened = named("open_store")
    listed = named("trials_of")
    found: Facts = {}
    for path in sorted((root() / "sweeps").rglob("*.yaml")):
        if path.name == "toy.yaml":  # has no recipes: `plan` says what there is
            found[path.stem] = json.loads(command("plan", path, "--store", folder / "none", "--json", folder=folder))
            continue
        loaded = load(path)
        with absent(), contextlib.chdir("/"):  # where absent data are looked for is part of what a stage is told
            if loaded.sweep.search:
                store = opened(str(folder / path.stem))
                store.open_for_writing()
                trials = named("work_off")(loaded, store, stop_after=8)[1]
            else:
                trials = listed(loaded)
            found[path.stem] = {**stage_facts(trials), "settings": loaded.sweep.model_dump(mode="json")}
    return found


def search(folder: Path) -> Facts:
    """Proposals of random, halving and noise-aware search on made-up outcomes; trials end in an order by the seed."""
    opened = named("open_store")
    made = named("load", "tests/orchestrator/search")
    found: Facts = {}
    for name, asked in SEARCHES.items():
        for seed in (0, 1):
            here = folder / f"{name}{seed}"
            loaded = made(here, {**asked, "seed": seed}, seeds=[1, 2], baseline={"recipe.defense.alpha": 0.0})
            store = opened(str(here / "store"))
            store.open_for_writing()
            agenda, _ = named("work_off")(loaded, store, shuffle=seed)
            found[f"{name}, seed {seed}"] = [plain(vars(one)) for one in agenda.proposals]
    return found


def stages(folder: Path) -> Facts:
    """SHA-256 of every tensor and column of the kept cases of tests/tasks, as its own test makes them."""
    (folder / "same_numbers_plugin.py").write_text(KEPT_PLUGIN, encoding="utf-8")
    lines = folder / "lines"
    paths = os.pathsep.join([str(folder), str(Path(__file__).parent), str(root())])
    test = ["tests/tasks/test_stage_numbers.py", "-k", "gives_the_numbers", "-p", "same_numbers_plugin"]
    given = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *test]
    process(given, root(), (0, 1), PYTHONPATH=paths, SAME_NUMBERS_LINES=str(lines))
    return dict(json.loads(line) for line in lines.read_text().splitlines())


def demo(folder: Path) -> Facts:
    """A sweep of two recipes, two seeds and four attacks under the judges that need no weights: tensors and columns of
    its store, tables of its report, runs of MLflow."""
    file, store, uri = folder / "frozen.yaml", folder / "store", f"sqlite:///{folder}/mlflow.db"
    file.write_text(DEMO, encoding="utf-8")
    command("run", file, "--store", store, "--tracking-uri", uri, "--yes", folder=folder)
    command("report", file, "--store", store, "--out", folder / "report", folder=folder)
    found: Facts = {"store": {}}
    for manifest in sorted(store.glob("*/*/manifest.json")):
        content = json.loads(manifest.read_text())
        name = f"{manifest.parent.parent.name} {manifest.parent.name}"
        found["store"][name] = {**artifact(manifest.parent), "metrics": untimed(content["metrics"])}
    found["report"] = {path.stem: columns(path) for path in sorted((folder / "report").glob("*.parquet"))}
    return {**found, "mlflow": tracked(uri, folder)}


def untimed(values: Mapping[str, Any]) -> Facts:
    return {name: plain(value) for name, value in sorted(values.items()) if not TIMES.search(name)}


def tracked(uri: str, folder: Path) -> Facts:
    """MLflow's runs by their names: params, last metrics, tags."""
    import mlflow

    mlflow.set_tracking_uri(uri)
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    names = {run.info.run_id: run.info.run_name for run in runs}
    found: Facts = {}
    for run in sorted(runs, key=lambda one: (one.info.run_name, sorted(one.data.params.items()))):
        tags = {name: names.get(value, value.replace(str(folder), "FOLDER")) for name, value in run.data.tags.items()}
        key = run.info.run_name
        key = key if key not in found else f"{key} ({sum(name.startswith(key) for name in found) + 1})"
        params = {name: value.replace(str(folder), "FOLDER") for name, value in run.data.params.items()}
        found[key] = {"params": untimed(params), "metrics": untimed(run.data.metrics), "tags": untimed(tags)}
        found[key]["status"] = run.info.status
    return found


def audit(folder: Path) -> Facts:
    """Figures and people of an audit of a checkpoint, a ResNet-18 of six drawn people."""
    import torch
    from PIL import Image

    import smoothsweep

    drawn = {"size": 32, "spread": 0.8, "seed": 5}
    faces = smoothsweep.synthetic_faces(identities=6, per_identity=40, **drawn, population="private")
    others = smoothsweep.synthetic_faces(identities=150, per_identity=1, **drawn, population="public")
    for name, images in (("people", faces), ("others", others)):
        for number, (picture, label) in enumerate(zip(images.images, images.labels, strict=True)):
            place = folder / name / (f"person{int(label)}" if name == "people" else "")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.permute(1, 2, 0).numpy()).save(place / f"{number:04}.png")
    names = [f"person{number}" for number in range(6)]
    network = named("trained_resnet")(folder / "people", names)
    torch.save(network.state_dict(), folder / "own.pth")
    given = ["audit", folder / "own.pth", "--data", folder / "people", "--public", folder / "others"]
    given += ["--architecture", "resnet18", "--image-size", 32, "--people", 3, "--judge", "synthetic"]
    given += ["--mean", 0.485, 0.456, 0.406, "--std", 0.229, 0.224, 0.225, "--out", folder / "out"]
    command(*given, "--effort", "quick", folder=folder)
    told = json.loads((folder / "out" / "audit.json").read_text())
    attacks = [{key: one[key] for key in ("attack", "access", "leak", "low", "high")} for one in told["reached"]]
    people = [
        {"person": one["name"]} | {key: plain(one[key]) for key in ("rate", "low", "high")} for one in told["people"]
    ]
    return {"checkpoint": {"test_acc": told["test_acc"], "attacks": attacks, "people": people}}


def calibration(folder: Path) -> Facts:
    """Rates of errors of the decision rule, of few draws, by the benchmark's seeds."""
    given = ["--small", "--sizes", "2x1", "--draws", "20", "--results", str(folder / "found.json")]
    process([sys.executable, "-m", "benchmarks.calibration", *given], root())
    rates = process([sys.executable, "-m", "benchmarks.calibration", "--rates", "--draws", "8"], root())
    lines = [line for line in rates.splitlines() if line.startswith("|")]
    return {"decisions": json.loads((folder / "found.json").read_text()), "rates": lines}


SECTIONS: dict[str, Callable[[Path], Facts]] = {
    one.__name__: one for one in (sweeps, search, stages, demo, audit, calibration)
}


# Comparing


def flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings; lists are leaves."""
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from flat(one, f"{key} {name}")
    else:
        yield key, value


def is_cut(key: str) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), key) for pattern in CUT)


def differences(section: str, kept: Facts, found: Facts) -> list[str]:
    """One line for everything that is kept and is missing or different now."""
    before, now = dict(flat(kept, section)), dict(flat(found, section))
    lines = []
    for key, value in before.items():
        if key not in now and not is_cut(key):
            lines.append(f"{key}: missing")
        elif key in now and now[key] != value and not is_cut(key):
            lines.append(f"{key}: {json.dumps(value)[:160]} is now {json.dumps(now[key])[:160]}")
    return lines


def main() -> int:
    """Write or compare. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["write", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections (default: all)")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONHASHSEED": "0"}
    sys.path[:0] = [str(root()), str(root() / "tests")]
    lines, counted = [], 0
    for section in options.only:
        file = options.folder / f"{section}.json"
        if options.what == "compare" and not file.is_file():
            raise SystemExit(f"same_numbers: {file}: expected what `write` left, got no such file")
        with tempfile.TemporaryDirectory(prefix="same-numbers-") as folder:
            found = json.loads(json.dumps(SECTIONS[section](Path(folder))))
        if options.what == "write":
            options.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        else:
            lines += differences(section, json.loads(file.read_text(encoding="utf-8")), found)
        counted += sum(1 for _ in flat(found))
        print(f"{section}: {counted} values so far, {len(lines)} different", file=sys.stderr, flush=True)
    print("\n".join([*lines, f"{len(lines)} of {counted} values are missing or different"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
