"""The runs of a sweep in MLflow: what they are called, their points, how they are found again.

Params are the same for every recipe of every sweep; what a recipe does not have is left out, never written as None.
Numbers stand alone (`recipe_alpha`, `recipe_schedule_start`), because parallel coordinates need axes, not texts.
Metrics carry the names of the columns of results.parquet.

Runs that an earlier version of a stage, or of the user's files, has made are kept, and no longer shown as the present:
they lose the kind that pages filter by, and say which run has taken their place.

What the report says of a recipe stands on its runs: tags to filter and colour by, numbers to sort by. A verdict needs
the whole sweep, so that it is younger than the runs. It is written when the report is, and again where a run does not
say it yet (MLflow was away, the run was made anew, further seeds have changed it).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS, TOY_COLUMNS, metric_of
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.planning.trial import ProposalLog, Trial
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep

OF_TRAINING = ("image_size", "batch_size", "optimizer", "lr", "lr_schedule", "weight_decay", "precision")
TEXT_AT_MOST = 6000  # characters of a param's value; MLflow's limit
SHOWN_FIRST = ("embedder_acc1", "attack_acc1", "test_acc")  # MLflow plots the first metric of a run unasked
STRUCTURED = ("defense", "schedule")  # axes whose values have params of their own
KINDS = ("recipe_schedule", "recipe_defense")  # params that say an axis `kind`


def recipe_params(trial: Trial, row: dict[str, Any]) -> dict[str, str]:
    """Name -> value of everything that makes this trial what it is but its seed."""
    settings = trial.settings
    recipe_settings = {"protocol": settings.protocol}
    recipe_settings.update(
        {k: v for k, v in row.items() if k.startswith("recipe_") and k != "recipe_defense_parameters"}
    )
    recipe_settings["prior"] = row.get("prior")
    if isinstance(settings, InversionSweep):
        if not isinstance(settings.recipe, ImportedClassifier):
            recipe_settings.update(_training_params(settings))
        if settings.attack is not None:
            recipe_settings.update(_attack_params(settings))
            recipe_settings["attack_classes"] = "all" if settings.classes == "all" else len(settings.classes)
    params = {name: _text(value) for name, value in recipe_settings.items() if value is not None}
    axes = {name: _text(value) for name, value in trial.cell.axes.items() if value is not None}
    return {**{name: text for name, text in axes.items() if not _is_said(name, text, params)}, **params}


def _training_params(settings: InversionSweep) -> dict[str, Any]:
    """How the target is trained: optimizer, schedule of alpha, the defense's own parameters."""
    recipe = settings.recipe
    params = {f"recipe_{key}": getattr(recipe, key) for key in OF_TRAINING}
    resolved = present(recipe.defense, "defense").resolved(settings.protocol)
    for key, value in resolved["schedule"].items():
        params["recipe_schedule" if key == "kind" else f"recipe_schedule_{key}"] = value
    for key, value in resolved.get("parameters", {}).items():
        params[f"recipe_{present(recipe.defense, 'defense').kind}_{key}"] = value
    if recipe.poison is not None:
        poison = recipe.poison.model_dump(mode="json", exclude_none=True, exclude={"kind"})
        params.update({f"recipe_poison_{key}": value for key, value in poison.items()})
    return params


def _attack_params(settings: InversionSweep) -> dict[str, Any]:
    """Every parameter of the attack, those of its stages and pool under the name of what holds them."""
    params = {}
    for key, value in settings.inverted_by.model_dump(mode="json", exclude_none=True).items():
        for name, part in value.items() if isinstance(value, dict) else ((None, value),):
            params[f"attack_{key}" if name is None else f"attack_{key}_{name}"] = part
    return params


def _is_said(name: str, text: str, params: dict[str, str]) -> bool:
    """Whether an axis of the grid repeats a param: `alpha` beside `recipe_alpha`."""
    if name in STRUCTURED:
        return f"recipe_{name}" in params
    kinds = KINDS if name.endswith("kind") else ()
    same = (key for key, value in params.items() if value == text)
    return any(key == name or key.endswith(f"_{name}") or key in kinds for key in same)


def run_words(trial: Trial, loaded: LoadedSweep) -> str:
    """What tells the trial's cell from others, as the report calls it: `alpha -0.2 · attack loss Poincaré`."""
    if not isinstance(trial.settings, InversionSweep):
        words = [f"{name} {value}" for name, value in trial.cell.axes.items() if value is not None]
    else:
        axes, values = sweep_axes(loaded, [trial]), trial.cell.axes
        words = [label(axes, values) for label in (recipe_label, attack_label)]
    return ascii_text(" · ".join(filter(None, words))) or "the recipe"


def run_name(trial: Trial, loaded: LoadedSweep) -> str:
    """The name of a trial's run."""
    phase = [trial.phase] if trial.phase != "sweep" else []
    return " · ".join([run_words(trial, loaded), f"seed {trial.seed}", *phase])


def metrics_of(row: dict[str, Any]) -> dict[str, float]:
    """Name -> value of what was measured."""
    columns = dict.fromkeys((*SHOWN_FIRST, *BY_KEY, *TOY_COLUMNS, *TIME_COLUMNS))
    return {c: float(row[c]) for c in columns if row.get(c) is not None and math.isfinite(row[c])}


def _text(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        value = json.dumps(value)
    return str(value)[:TEXT_AT_MOST]


STRATEGY, PROPOSAL, RUNG = "smoothsweep.strategy", "smoothsweep.proposal", "smoothsweep.rung"
PHASE = "smoothsweep.phase"


def strategy_tags(loaded: LoadedSweep) -> dict[str, str]:
    """How trials are chosen: grid, unless the sweep searches."""
    search = loaded.sweep.search
    return {STRATEGY: search.strategy if search else "grid"}


def proposal_tags(loaded: LoadedSweep, store: Store) -> dict[str, dict[str, str]]:
    """Trial id -> tags of the proposal that it belongs to. Reads the whole search: for the end of a sweep.

    A trial of a recipe that met more seeds later belongs to the last proposal of it; its run may be older, and say
    otherwise.
    """
    if loaded.sweep.search is None:
        return {}
    proposed = ProposalLog(loaded, store)
    tags: dict[str, dict[str, str]] = {}
    for proposal in proposed.proposals():
        rung = "full" if proposal.rung is None else str(proposal.rung)
        rung = rung if proposal.seeds is None else f"full, {proposal.seeds} of {len(loaded.sweep.every_seed)} seeds"
        for trial in proposed.make(proposal):
            earlier = trial.id in tags and proposal.origin == "replication"
            phase = {PHASE: "sweep" if proposal.seeds is None else "proxy"} if earlier else {}
            if trial.id not in tags or earlier:
                tags[trial.id] = {PROPOSAL: str(proposal.number), RUNG: rung, **phase}
    return tags


NO_CURVE = ("epoch", "seconds")  # every other column of a history is one, a defense's own facts included
PER_CALL = 1000  # MLflow's limit of metrics, params and tags together
PARAMS_PER_CALL = 100


def trial_points(trial: Trial, row: dict[str, Any], store: Store) -> list[Any]:
    """Every metric of the trial, each at the time when its last stage finished.

    Of a training effective alpha, losses, logit gap, accuracies by zero-based epoch; of the descents what was met along
    them, means over the classes, by zero-based step.
    """
    from mlflow.entities import Metric

    at = finished_at(trial, store)
    points = [Metric(name, value, at, 0) for name, value in metrics_of(row).items()]
    for stage in trial.stages:
        curves, gradients = stage.name == "target", stage.name == stage_that_draws("gradient_curves")
        if not (curves or gradients) or not store.has(stage):
            continue
        path = store.file(stage, "history.parquet" if curves else "gradients.parquet")
        if path is None:
            continue
        rows, at = read_rows(path), int(store.manifest(stage)["finished_at"] * 1000)
        if curves:
            values = [
                (f"epoch/{name}", value, epoch)
                for name in rows.columns.difference(NO_CURVE, sort=False)
                for epoch, value in zip(rows["epoch"], rows[name], strict=True)
            ]
        else:
            columns = zip(*(rows[name] for name in ("quantity", "loss", "mean", "step")), strict=True)
            values = [(f"descent/gradients_{of}_{loss}", mean, step) for of, loss, mean, step in columns]
        points += [
            Metric(name, float(value), at, int(step))
            for name, value, step in values
            if value is not None and math.isfinite(value)
        ]
    return points


def finished_at(trial: Trial, store: Store) -> int:
    """When the last of its finished stages ended, in milliseconds; 0 before any has."""
    finished = [store.manifest(stage)["finished_at"] for stage in trial.stages if store.has(stage)]
    return int(max(finished, default=0) * 1000)


def work_ms(trial: Trial, store: Store) -> int:
    """How long its finished stages took, one after the other, in milliseconds; those that it shares with others too."""
    finished = [stage for stage in with_ancestors(trial.stages) if store.has(stage)]
    return int(1000 * sum(store.manifest(stage)["seconds"] for stage in finished))


def write(client: Any, run_id: str, *, params: dict[str, str], tags: dict[str, str], points: list[Any]) -> None:
    """Params, tags and metrics of a run in as few calls as MLflow's limits allow, mostly one."""
    from mlflow.entities import Param, RunTag

    params_left = [Param(key, value) for key, value in params.items()]
    run_tags = [RunTag(key, value[:4900]) for key, value in tags.items()]
    while params_left or run_tags or points:
        now, params_left = params_left[:PARAMS_PER_CALL], params_left[PARAMS_PER_CALL:]
        room = PER_CALL - len(now) - len(run_tags)
        client.log_batch(run_id, metrics=points[:room], params=now, tags=run_tags)
        points, run_tags = points[room:], []


def digest_of(points: Sequence[Any]) -> str:
    """Fingerprint of points, for a tag of the run that holds them: MLflow returns infinity as another number, and NaN
    equals nothing, so that no metric is read back to compare it. Equal points may be written twice."""
    told = [(point.key, point.step, point.timestamp, repr(point.value)) for point in points]
    return sha256(repr(told).encode()).hexdigest()[:12]


def pages(search: Callable[..., Any], *asked: Any, **options: Any) -> Iterator[Any]:
    """Everything that one of the client's searches finds, a page at a time."""
    token = None
    while True:
        page = search(*asked, page_token=token, **options)
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def already_gone() -> Generator[None]:
    """Take what is to be deleted, and is not there, for deleted: by another driver, or before a kill."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise


KIND = "smoothsweep.kind"
KEYS = {"sweep": "smoothsweep.sweep", "trial": "smoothsweep.trial", "recipe": "smoothsweep.recipe"}
CONTENT = "smoothsweep.content"  # of a recipe's run: which trials its means are over
SEEDS = "smoothsweep.seeds"  # that the means are over
POINTS = "smoothsweep.points"  # fingerprint of the measured points that were written into a run
VERDICT_DIGEST = "smoothsweep.told"  # fingerprint of the report's verdict that the run holds
VERDICT_NUMBERS = "smoothsweep.told_numbers"  # its numbers with their steps, as JSON
PARENT = "mlflow.parentRunId"
REPLACED_BY = "smoothsweep.replaced_by"
EARLIER = "earlier "  # before the kind of a run that a present one has replaced
PAGE = 500
NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run that exists.

    Attributes:
        status: RUNNING, FINISHED, FAILED or KILLED.
        started: Time of its start, in milliseconds.
        name, params: As the server had them when it was read.
        tags: The same, and those of ours that were noted since.
    """

    run_id: str
    status: str
    started: int = 0
    name: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)

    def tag(self, name: str) -> str:
        """The tag's value, empty without it."""
        return self.tags.get(name, "")

    @property
    def retired(self) -> bool:
        """Whether a present run has replaced it."""
        return self.tag(KIND).startswith(EARLIER)


class Runs:
    """kind ("sweep" | "trial" | "recipe") and fingerprint -> run. Read once; `read` again after a failure.

    A request that seemed lost may yet have created its run, and two drivers may both have created one. Reading keeps
    one of them, a finished one before others and then the oldest, and deletes the rest.
    """

    def __init__(self, client: Any, experiment_id: str) -> None:
        self._client, self._experiment_id = client, experiment_id
        self._known: dict[tuple[str, str], StoredRun] = {}
        self.read()

    def get(self, kind: str, fingerprint: str) -> StoredRun | None:
        return self._known.get((kind, fingerprint))

    def read(self) -> None:
        """What the server has now. Memory: a few hundred bytes per run."""
        known: dict[tuple[str, str], StoredRun] = {}
        doubles: dict[str, str] = {}  # run that is one too many -> the one that is kept
        parents: dict[str, str] = {}  # run -> its parent
        oldest_first = {"max_results": PAGE, "order_by": ["attributes.start_time ASC"]}
        for run in pages(self._client.search_runs, [self._experiment_id], **oldest_first):
            for kind, key in KEYS.items():
                if key in run.data.tags:
                    doubles.update(_enter(known, (kind, run.data.tags[key]), run))
            parents[run.info.run_id] = run.data.tags.get(PARENT, "")
        for child, parent in parents.items():
            if child in doubles:
                with already_gone():
                    self._client.delete_run(child)
            elif parent in doubles:
                self._client.set_tag(child, PARENT, doubles[parent])
        self._known = known

    def create(
        self, kind: str, fingerprint: str, name: str, tags: dict[str, str], started: int | None = None
    ) -> StoredRun:
        """A new run with these tags, in one transaction. started: when its work began, in milliseconds; None: now."""
        tags = {KIND: kind, KEYS[kind]: fingerprint, "mlflow.runName": name, **tags}
        run = self._client.create_run(self._experiment_id, start_time=started, tags=tags)
        stored = StoredRun(run_id=run.info.run_id, status="RUNNING", started=run.info.start_time)
        return self.note(kind, fingerprint, stored)

    def note(self, kind: str, fingerprint: str, stored: StoredRun, tags: Mapping[str, str] = NO_TAGS) -> StoredRun:
        """Remember what has become of a run. tags: those that were written."""
        self._known[kind, fingerprint] = replace(stored, tags={**stored.tags, **tags})
        return self._known[kind, fingerprint]

    def drop(self, kind: str, fingerprint: str) -> None:
        """Delete a run, to start over."""
        stored = self._known.pop((kind, fingerprint), None)
        if stored is not None:
            with already_gone():
                self._client.delete_run(stored.run_id)

    def retire(self, present: Mapping[str, Collection[str]]) -> int:
        """Retire each run that is none of the present ones, and means the same as one of them. Returns how many.

        After `read`, which knows the params. present: kind of run -> fingerprints. Two runs mean the same when they
        have one name, and one value in every param that both have. Recipes that the sweep no longer names, or that
        other settings were tried with, stay as they are.
        """
        now = {
            kind: [run for (of, fingerprint), run in self._known.items() if of == kind and fingerprint in fingerprints]
            for kind, fingerprints in present.items()
        }
        retired = 0
        for (kind, fingerprint), run in self._known.items():
            if fingerprint in present.get(kind, (fingerprint,)) or run.retired:
                continue
            if heir := next((one for one in now[kind] if _means_the_same(one, run)), None):
                self._client.set_tag(run.run_id, REPLACED_BY, heir.run_id)
                self._client.set_tag(run.run_id, KIND, f"{EARLIER}{kind}")
                retired += 1
        return retired

    def bring_back(self, kind: str, fingerprint: str) -> None:
        """Have a run that was retired be shown again, where there is one: the code is what it was."""
        run = self.get(kind, fingerprint)
        if run is not None and run.retired:
            self._client.set_tag(run.run_id, KIND, kind)
            with already_gone():
                self._client.delete_tag(run.run_id, REPLACED_BY)
            self.note(kind, fingerprint, run, {KIND: kind})


def _enter(known: dict[tuple[str, str], StoredRun], key: tuple[str, str], run: Any) -> dict[str, str]:
    """Note the run unless a better one is known. Returns the run that is one too many, with the one kept instead."""
    info, data = run.info, run.data
    new = StoredRun(
        run_id=info.run_id,
        status=info.status,
        started=info.start_time,
        name=info.run_name or "",
        params=data.params,
        tags=data.tags,
    )
    old = known.setdefault(key, new)
    if old is new:
        return {}
    if old.status != "FINISHED" and new.status == "FINISHED":
        known[key] = new
        return {old.run_id: new.run_id}
    return {new.run_id: old.run_id}


def _means_the_same(a: StoredRun, b: StoredRun) -> bool:
    shared = a.params.keys() & b.params.keys()
    return bool(shared) and a.name == b.name and all(a.params[key] == b.params[key] for key in shared)


VERDICT = "smoothsweep.verdict"  # of the recipe, whatever the run's attack: a word of `wording.WORDING`, or baseline
HIDING = "smoothsweep.hiding"  # the same word under the tag's earlier name; of the sweep, every recipe's
LOOK = "smoothsweep.look"  # of a sweep with looks: at which look the recipe was decided, or that it is not
STRONGEST = "leak_strongest"
"""The leak of a recipe under the attack that works best against it, the same on its runs under every attack."""
ORDER = "leak_order"
"""1 for the run that a table shows first: recipes from the smallest leak to the largest, each with its strongest attack
before the others. MLflow's pages sort by one column alone."""
PLACES = (STRONGEST, ORDER)
NUMBERS = (STRONGEST, "reduction", "reduction_low", "reduction_high", "hidden", "hidden_low", "hidden_high")


@dataclass(frozen=True, kw_only=True)
class RunVerdict:
    """A verdict as one run of MLflow holds it.

    Attributes:
        tags: Name -> value.
        numbers: Metric -> value, in the unit of the leak.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        return sha256(json.dumps([dict(self.tags), dict(self.numbers)], sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What a report says, for the runs of its sweep.

    Attributes:
        of_trials: Trial -> the verdict on its recipe under its attack, the same for all seeds.
        means: Trial -> the means of its recipe under its attack over the seeds, with their intervals.
        whole: Tags of the sweep's own run.
        note: What the sweep's run is described by, in Markdown: the report's first sentence and its table.
        leak: The metric that decides; None where no leak was measured.
        ranked: A trial of every accurate enough recipe under the attack that works best against it, least leak first.
        front: Those that no other recipe beats in both accuracy and leak, most accurate first.
        is_marked: Whether the report marks the first of them as leaking least.
    """

    of_trials: Mapping[str, RunVerdict] = field(default_factory=dict)
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    leak: str | None = None
    ranked: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    is_marked: bool = False

    @property
    def least(self) -> str:
        """A trial of the recipe that leaks least; empty where none is accurate enough."""
        return self.ranked[0] if self.ranked else ""


def verdicts_of(result: SweepResult, note: str = "") -> Verdicts:
    """What the result says of every trial that it counts. note: see `Verdicts`."""
    facts, of_trials, strongest = result.facts, {}, {}
    leak, means = facts["leak"], _means_of(result)
    if leak is None:
        return Verdicts(note=note, means=means)
    recipes = {row["recipe"]: row for row in rows_of(result.recipes)}
    for row in rows_of(result.attacks[~result.attacks["control"].astype(bool)]):
        recipe = recipes[row["recipe"]]
        known = {name: recipe[name] for name in NUMBERS if name in recipe}
        known[ORDER] = row["place"]
        if row["attack"] == recipe["attack"]:
            strongest[row["recipe"]] = row["trials"][0]
        known[STRONGEST] = recipe[leak] if recipe["attack"] is not None else None
        own = row["verdict"] if facts["by_setting"] else None
        word = "baseline" if row["is_baseline"] else recipe["verdict"] or own
        tags = {VERDICT: word, HIDING: recipe["verdict"], LOOK: recipe["look"]}
        verdict = RunVerdict(
            tags={key: value for key, value in tags.items() if value},
            numbers={
                name: float(value) for name, value in known.items() if not is_null(value) and math.isfinite(value)
            },
        )
        of_trials.update(dict.fromkeys(row["trials"] if verdict.tags or verdict.numbers else (), verdict))
    words = "; ".join(
        f"{ascii_text(name)}: {recipe['verdict']}" for name, recipe in recipes.items() if recipe["verdict"]
    )
    sign = metric_of(str(leak)).sign
    ranked = sorted((name for name in strongest if recipes[name]["is_accurate"]), key=lambda n: sign * recipes[n][leak])
    return Verdicts(
        of_trials=of_trials,
        means=means,
        whole={HIDING: words} if words else {},
        note=note,
        leak=str(leak),
        ranked=tuple(strongest[name] for name in ranked),
        front=tuple(strongest[name] for name in facts["front"] if name in ranked),
        is_marked=facts["best_mark"] is not None,
    )


def _means_of(result: SweepResult) -> dict[str, dict[str, float]]:
    """As `Verdicts.means`; an interval has what one direction is better of."""
    names = [name for name in BY_KEY if name in result.attacks]
    names += [f"{name}{end}" for name in names if BY_KEY[name].better for end in ("_low", "_high")]
    means: dict[str, dict[str, float]] = {}
    for row in rows_of(result.attacks):
        known = {name: float(row[name]) for name in names if row[name] is not None and math.isfinite(row[name])}
        known["n_seeds"] = float(row["n"])
        means |= dict.fromkeys(row["trials"], known)
    return means


def write_verdict(client: Any, run: StoredRun, verdict: RunVerdict, *, at: int) -> dict[str, str]:
    """Replace the verdict that a run of MLflow holds. at: milliseconds since 1970.

    A number that has changed is a further point of its metric: no step holds two. What the run holds is read from a
    tag of ours, never from its metrics. Returns the tags that were written.
    """
    from mlflow.entities import Metric

    held: dict[str, list[Any]] = json.loads(run.tag(VERDICT_NUMBERS) or "{}")
    points = []
    for name, value in verdict.numbers.items():
        step, before = held.get(name, (-1, None))
        if value != before:
            held[name] = [step + 1, value]
            points.append(Metric(name, value, at, step + 1))
    numbers = json.dumps(held, sort_keys=True)
    blank = dict.fromkeys((VERDICT, HIDING, LOOK), "") if run.tag(VERDICT_DIGEST) else {}
    tags = {**blank, **verdict.tags, VERDICT_DIGEST: verdict.fingerprint, VERDICT_NUMBERS: numbers}
    write(client, run.run_id, params={}, tags=tags, points=points)
    return tags
