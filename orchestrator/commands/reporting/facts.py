"""What a sweep is made of, and what it took: the facts that its report lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from smoothsweep.core.external.kinds import is_external
from smoothsweep.core.plugins import plugin_version, with_plugin_name
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.format import listing
from smoothsweep.orchestrator.stages.code_version import code_version
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion
from smoothsweep.sweeps.schema import InversionSweep


def _counts(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of a manifest that are finite."""
    numbers = {key: value for key, value in manifest["metrics"].items() if value is not None}
    return {key: float(value) for key, value in numbers.items() if math.isfinite(value)}


def _seeds(loaded: LoadedSweep) -> str:
    seeds, looks = ", ".join(map(str, loaded.sweep.every_seed)), loaded.sweep.looks
    return seeds if looks is None else f"{seeds}; looks at {listing(map(str, looks.looks))}"


def sweep_facts(loaded: LoadedSweep, trials: list[Trial], store: Store) -> dict[str, str]:
    """Name -> value, as the report's section on the sweep lists them: what it is made of, and what it took."""
    facts = {"Sweep file": loaded.source, "Store": store.location, "Seeds": _seeds(loaded), "Code": code_version()}
    facts |= members_used([as_inversion(trial.settings) for trial in trials])
    named, stages = facts["Private data"], with_ancestors([stage for trial in trials for stage in trial.stages])
    manifests = [store.manifest(stage) for stage in stages if store.has(stage)]
    for manifest in manifests:
        m = _counts(manifest)
        if manifest["stage"] == "data" and {"num_classes", "num_train", "num_test"} <= m.keys():
            images = f"{m['num_train']:.0f} training and {m['num_test']:.0f} test images"
            facts["Private data"] = f"{named}, {m['num_classes']:.0f} classes, {images}"
    if manifests:
        facts["Device time"] = f"{sum(m['seconds'] for m in manifests) / 60:.1f} min over {len(manifests)} stages"
        facts["Devices"] = ", ".join(sorted({f"{m.get('device')} on {m.get('host')}" for m in manifests}))
        facts["Libraries"] = ", ".join(f"{k} {v}" for k, v in (manifests[-1].get("libraries") or {}).items() if v)
    if licences := prior_licences(trials):
        facts["Licence of the prior"] = " ".join(licences)
    return facts


def members_used(settings: Sequence[InversionSweep]) -> dict[str, str]:
    """What of each family all these trials use, in words; of one that a package brings with its name and version."""
    attacks = [sweep.attack.words for sweep in settings if sweep.attack is not None]
    priors = [sweep.prior.words for sweep in settings if sweep.reads_prior and sweep.prior is not None]
    data = [_named("data", sweep.data.kind) for sweep in settings]
    targets = [sweep.recipe.checked for sweep in settings if isinstance(sweep.recipe, ImportedClassifier)]
    models = [_named("models", card.architecture) for card in targets if is_external(card.architecture)]
    defended = [sweep.recipe.defense for sweep in settings if sweep.recipe.defense is not None]
    defenses = [
        _named("defenses", defense.kind) for defense in defended if plugin_version("defenses", defense.kind)
    ]  # recipes name ours
    members = {"Private data": data, "Model": models, "Defense": defenses, "Attack": attacks, "Prior": priors}
    return {name: "; ".join(dict.fromkeys(words)) for name, words in members.items() if words}


def _named(family: str, kind: str) -> str:
    return with_plugin_name(kind.replace("_", " "), family, kind)


def prior_licences(trials: list[Trial]) -> list[str]:
    """What images and results are bound to by the priors that they were made with."""
    settings = [trial.settings for trial in trials]
    read = [
        sweep.prior.built
        for sweep in settings
        if isinstance(sweep, InversionSweep) and sweep.reads_prior and sweep.prior
    ]
    return sorted({prior.licence for prior in read if prior.licence is not None})
