"""`smoothsweep rejudge SWEEP`: other judges for reconstructions that are in the store; nothing is attacked anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted, shortened
from smoothsweep.orchestrator.commands.plan import Confirmation
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.schema import InversionSweep

ATTACKED = ("target", "imported", "attack")  # what of a trial must be there
SUFFIX = "-rejudged"
_LONGEST = 64  # characters of a sweep's name


@dataclass(frozen=True, kw_only=True)
class RejudgeRequest:
    """What was asked for.

    Attributes:
        judges: KEY=VALUE, keys below `judges` of the sweep file.
        name: Name of the new sweep, None for that of the old one with a suffix.
    """

    sweep_file: Path
    overrides: list[str]
    judges: list[str]
    store: str
    name: str | None
    out: Path | None
    yes: bool


def rejudge(request: RejudgeRequest) -> int:
    """Run the new judges, and what they are made of, and report under a name of its own.

    The exit code is that of `smoothsweep run`. Raises InputError, before anything is started, for what is no key of
    the judges, for a store that is not there, and where anything but judges would have to run.
    """
    judges = [_override(text) for text in request.judges]
    loaded = load_sweep(request.sweep_file, [*request.overrides, *judges])
    open_existing_store(request.store)
    _refuse_others(loaded)
    overrides = [*request.overrides, *judges, f"name={_name(request, loaded)}"]
    if loaded.sweep.reaudit:
        overrides.append("reaudit=null")
        screen.err("smoothsweep: the second audit is left out: its recipes were chosen by the judges there were")
    return run_and_report(
        request.sweep_file,
        overrides,
        request.store,
        None,
        None,
        request.out,
        Confirmation(yes=request.yes),
        guard=_guard(request),
    )


def _override(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not equals or not key or key.split(".")[0] == "judges":
        expected = "expected KEY=VALUE with a key below judges, e.g. embedder.name=facenet"
        raise InputError(f"--judges: {expected}, got {quoted(text)}")
    return f"judges.{text}"


def _refuse_others(loaded: LoadedSweep) -> None:
    sweep = loaded.sweep
    if not isinstance(sweep, InversionSweep):
        raise InputError(f"{loaded.source}: expected a sweep with judges, got the two-dimensional example")
    if sweep.search:
        expected = "expected a grid: a search chooses its recipes by the judges it had"
        raise InputError(f"{loaded.source}: search: {expected}, got {sweep.search.strategy}")
    if sweep.looks:
        expected = "expected a list of seeds: looks choose who gets more by the judges they had"
        raise InputError(f"{loaded.source}: seeds.looks: {expected}, got looks")


def _name(request: RejudgeRequest, loaded: LoadedSweep) -> str:
    """Name of the new sweep, another than the old one's, whose table and page stay."""
    name = request.name or loaded.sweep.name[: _LONGEST - len(SUFFIX)] + SUFFIX
    if name == loaded.sweep.name:
        raise InputError(f"--name {shortened(name)}: expected another name than the sweep's, whose results stay")
    return name


def _guard(request: RejudgeRequest) -> Callable[[Plan], None]:
    """Refuses a plan in which a target would be trained or attacked, or what an attack needs be made."""

    def guard(plan: Plan) -> None:
        missing = {stage.fingerprint for stage in plan.missing}
        lacking = []
        for trial in plan.trials:
            made = with_ancestors([stage for stage in trial.stages if stage.name in ATTACKED])
            if gone := [stage for stage in made if stage.fingerprint in missing and stage.name != "data"]:
                lacking.append(f"{trial.label} ({gone[-1].label})")
        if lacking:
            run = f"smoothsweep run {request.sweep_file} --store {request.store}"
            more = f" and {len(lacking) - 1} more trials" if len(lacking) > 1 else ""
            expected = f"expected reconstructions of every trial in the store ({run} makes them)"
            raise InputError(f"rejudge: {expected}, got none of {lacking[0]}{more}")

    return guard
