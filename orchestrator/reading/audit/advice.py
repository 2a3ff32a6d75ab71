"""What to do after an audit, as far as its tables say."""

from __future__ import annotations

from smoothsweep.orchestrator.reading.audit.result import Audit

LABELS = "labels"
LABELS_TRIED = (
    "Give access to the decided class alone where that is enough: what scores or gradients add is in the table above."
)
LABELS_UNTRIED = (
    "Give access to the decided class alone where that is enough. How much less the model then leaks is not known: no "
    "attack that sees only the class was tried."
)
FEWER_QUERIES = "Limit queries per client where the table shows that an attack needs many."
TRY_FIX = (
    "Train with other recipes and compare: the same command with {fix} trains four on these images and says what each "
    "leaks, at which accuracy."
)
TRIED_FIX = (
    "Train as the recipes above that reduce the leak, if there are any, and audit the result: what holds for these "
    "short trainings need not hold for yours."
)


def advice(audit: Audit) -> tuple[str, ...]:
    """What to do, in sentences; of an embedder nothing that trains, which `--gallery` refuses."""
    said = []
    if audit.access != LABELS:
        said.append(LABELS_TRIED if LABELS in audit.by_access() else LABELS_UNTRIED)
    if any(one.queries for one in audit.attacks):
        said.append(FEWER_QUERIES)
    if not audit.is_enrolled:
        fix = "--fix --reference resnet18 (or another network to train)" if audit.is_program else "--fix"
        said.append(TRIED_FIX if audit.fixes else TRY_FIX.format(fix=fix))
    return tuple(said)
