"""Targets in MLflow's model registry: one model per sweep, one version per recipe worth taking, its leak beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.recipes import RecipeMeans
from smoothsweep.orchestrator.tracking.runs import already_gone
from smoothsweep.orchestrator.tracking.server import scratch
from smoothsweep.orchestrator.tracking.verdicts import Verdicts

AT_MOST = 5  # models per sweep under `frontier`
EXPORT_S = 900  # for all of them
ALIAS = "recommended"
TAG_TRIAL = "smoothsweep.trial"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A target to register: its recipe, and the tags that tell what it leaks."""

    recipe: RecipeMeans
    tags: dict[str, str]

    @property
    def trial_id(self) -> str:
        return self.recipe.trial.id


def candidates(recipes: Sequence[RecipeMeans], verdicts: Verdicts, which: str) -> list[Candidate]:
    """The recipes to register, least leak first. which: `frontier` (not beaten in both; AT_MOST), `all`, `none`.

    Of every recipe the first seed's target; a target brought in is not registered: it is the user's already.
    """
    by_trial = {row["trial"]: means for means in recipes for row in means.rows}
    trials = {"all": verdicts.ranked, "frontier": verdicts.front[-AT_MOST:][::-1], "none": ()}[which]
    if which == "frontier" and verdicts.is_marked and verdicts.least not in trials:
        trials = (verdicts.least, *trials)[:AT_MOST]
    chosen = [by_trial[trial] for trial in trials if trial in by_trial]
    trained = [one for one in chosen if any(stage.name == "target" for stage in one.trial.stages)]
    return [Candidate(recipe=recipe, tags=_tags(recipe, recipes)) for recipe in trained]


def register(
    client: Any,
    name: str,
    wanted: Sequence[Candidate],
    *,
    recommended: RecipeMeans | None,
    run_of: Callable[[str], str],
    store: Store,
    progress: Callable[[], None],
) -> list[str]:
    """Export and register what the registry does not have yet; move the alias. Returns what could not be exported.

    run_of: trial id -> the run that the model belongs to. progress: called as long as it goes on.
    Calling it again adds nothing.
    """
    versions = _registered(client, name)
    missing = [candidate for candidate in wanted if candidate.trial_id not in versions]
    problems: list[str] = []
    if missing:
        with scratch() as folder:
            for candidate, out, error in _exported(missing, store, folder, progress):
                if error:
                    problems.append(f"{candidate.recipe.label}: {error}")
                else:
                    _add(client, name, candidate, out, run_of(candidate.trial_id))
        versions = _registered(client, name)  # of two drivers, the last one to write sees both versions
    for candidate in wanted:
        version = versions.get(candidate.trial_id)
        if version is not None and candidate not in missing:  # further seeds have changed the means
            for key, value in candidate.tags.items():
                client.set_model_version_tag(name, version, key, value)
    best = recommended and versions.get(recommended.trial.id)
    if best:
        client.set_registered_model_alias(name, ALIAS, best)
    return problems


def _registered(client: Any, name: str) -> dict[str, str]:
    """Trial id -> version of what the registry has under this name, which is made if need be.

    Two drivers may both have entered a trial: the first version is kept, and the others are deleted unless a user
    has given them an alias.
    """
    _have_model(client, name)
    versions: dict[str, list[int]] = {}
    for version in _versions(client, name):
        if TAG_TRIAL in version.tags:
            versions.setdefault(version.tags[TAG_TRIAL], []).append(int(version.version))
    doubles = [number for numbers in versions.values() for number in sorted(numbers)[1:]]
    if doubles:
        aliases = client.get_registered_model(name).aliases  # alias -> version
        kept = {int(number) for alias, number in aliases.items() if alias != ALIAS}
        for number in sorted(set(doubles) - kept):
            with already_gone():
                client.delete_model_version(name, str(number))
    return {trial_id: str(min(numbers)) for trial_id, numbers in versions.items()}


def _have_model(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    if client.search_registered_models(f"name = '{name}'", max_results=1):
        return
    description = f"Targets of the sweep {name}: images [N, 3, S, S] in [-1, 1] to logits [N, classes]."
    try:
        client.create_registered_model(name, tags={"smoothsweep.sweep": name}, description=description)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":  # by another driver, meanwhile
            raise


def _versions(client: Any, name: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_model_versions(f"name = '{name}'", max_results=200, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _exported(
    missing: Sequence[Candidate], store: Store, folder: Path, progress: Callable[[], None]
) -> list[tuple[Candidate, Path, str | None]]:
    """Every candidate with the folder of its model, or why there is none."""
    specs, outs = [], []
    for number, candidate in enumerate(missing):
        stage = next(stage for stage in candidate.recipe.trial.stages if stage.name == "target")
        outs.append(folder / f"model-{number}")
        specs.append({"artifact": str(store.path(stage)), "config": dict(stage.config), "out": str(outs[-1])})
    write_file(folder / "specs.json", json.dumps(specs), flush=False)
    command = [sys.executable, "-m", "smoothsweep.orchestrator.tracking.exporting", str(folder / "specs.json")]
    log, late = folder / "exported.jsonl", time.monotonic() + EXPORT_S
    # Its stdin stays open as long as we live: without us it ends.
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, cwd=TREE, stderr=subprocess.DEVNULL) as process,
    ):
        while process.poll() is None and time.monotonic() < late:
            progress()
            time.sleep(0.1)
        process.kill()
    text, reason = log.read_text(), f"the exporting process ended early, or took more than {EXPORT_S} s"
    errors = {line["out"]: line["error"] for line in map(json.loads, text.splitlines())}
    return [(c, out, errors.get(str(out), reason)) for c, out in zip(missing, outs, strict=True)]


def _add(client: Any, name: str, candidate: Candidate, folder: Path, run_id: str) -> None:
    """Upload the model beside its trial's run, then enter it, with its tags, in one call."""
    client.log_artifacts(run_id, str(folder), "model")
    client.create_model_version(
        name,
        source=f"runs:/{run_id}/model",
        run_id=run_id,
        tags=candidate.tags,
        description=candidate.recipe.label,
        await_creation_for=0,
    )


def _tags(recipe: RecipeMeans, recipes: Sequence[RecipeMeans]) -> dict[str, str]:
    """Who it is and what it leaks: the target's own numbers, means over seeds, and the leak under every attack."""
    trial, row = recipe.trial, recipe.rows[0]
    tags = {TAG_TRIAL: trial.id, "smoothsweep.recipe": recipe.label, "seed": str(trial.seed)}
    tags |= {key: recipe.params[key] for key in recipe.params if key in KEPT_PARAMS}
    keys = [spec.key for spec in METRICS if spec.group in ("utility", "leak") and spec.better]
    tags |= {key: f"{row[key]:.6g}" for key in keys if row.get(key) is not None and row[key] == row[key]}
    attacks = [other for other in recipes if other.target == recipe.target]
    for other in attacks:
        for key in keys:
            if key in other.metrics and (key in ("test_acc", "ece")) <= (other is recipe):
                where = f"/{other.params.get('attack_loss', 'attack')}" if len(attacks) > 1 else ""
                tags[f"mean/{key}{where if key not in ('test_acc', 'ece') else ''}"] = f"{other.metrics[key]:.6g}"
    return {**tags, "n_seeds": str(len(recipe.seeds))}


KEPT_PARAMS = (
    "protocol",
    "recipe_architecture",
    "recipe_defense",
    "recipe_alpha",
    "recipe_schedule",
    "recipe_schedule_start",
    "recipe_schedule_end",
    "recipe_schedule_at",
    "recipe_image_size",
)
