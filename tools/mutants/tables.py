"""What is mutated, room by room, and which tests are about what has no test file of its name."""

from tools.mutants.tables_of_core import (
    ATTACKS_TRAVEL,
    AUDITED,
    AUDITS,
    DATA_TRAVEL,
    DECLARED,
    FAMILY,
    FAR,
    GRAPH,
    KEPT,
    OF_A_TRAINING,
    OF_AN_ATTACK,
    OF_CORE,
    OF_PICTURES,
    OUT,
    PICKLED,
    READ,
    SPANNING,
    STORING,
    TRAVEL,
)

ROOMS = (
    "tasks",
    "sweeps",
    "core/attacks",
    "core/audit",
    "core/metrics",
    "core/pickles",
    "core/external",
    "core/isolation",
    "core/readers",
    "core/membership",
    "core/judges",
    "orchestrator/reading",
    "orchestrator/commands/batch",
    "core",
    "orchestrator",
)
LEFT_OUT = ("tasks/ray_train.py", "tasks/registry.py")
OF_THE_ORCHESTRATOR = (
    "stages/graph",
    "stages/stage",
    "stages/fingerprints",
    "stages/judges",
    "stages/code_version",
    "store/local",
    "store/linked",
    "store/common/base",
    "store/opening",
    "store/common/verifying",
    "store/remote/joining",
    "store/remote/layout",
    "store/remote/manifests",
    "planning/plan",
    "planning/history",
    "planning/trial",
    "planning/trials",
    "scheduling/execute",
    "scheduling/limits",
    "scheduling/finite",
    "commands/audit/queries",
)
NAMED = {"core": ("same_code",), "core/judges": ("verification",), "orchestrator": OF_THE_ORCHESTRATOR}
"""Rooms of which these modules alone count: the others of their folders have a room of their own, or none."""

TESTS: dict[str, tuple[str, ...]] = {
    **OF_CORE,
    "tasks/attack.py": (
        "tests/tasks/test_attack.py",
        "tests/tasks/test_left_images.py",
        OF_AN_ATTACK,
        "tests/tasks/test_noisy_target.py",
        "tests/tasks/test_other_targets.py",
    ),
    "tasks/attacking.py": (
        "tests/tasks/test_attack.py",
        "tests/tasks/test_external.py",
        "tests/tasks/test_plg.py",
        OF_AN_ATTACK,
    ),
    "tasks/class_names.py": ("tests/tasks/test_class_names.py",),
    "tasks/classes.py": ("tests/tasks/test_classes.py", "tests/tasks/test_attack.py"),
    "tasks/context.py": ("tests/tasks/test_context.py", "tests/tasks/test_training.py"),
    "tasks/data.py": ("tests/tasks/test_data.py", *OF_PICTURES),
    "tasks/devices.py": ("tests/tasks/test_devices.py", "tests/orchestrator/planning/test_capacity.py"),
    "tasks/fidelity.py": ("tests/tasks/test_fidelity.py",),
    "tasks/files.py": ("tests/tasks/test_files.py", "tests/tasks/test_target.py"),
    "tasks/imported.py": (
        "tests/tasks/test_imported.py",
        "tests/orchestrator/stages/test_imported_reading.py",
        "tests/orchestrator/commands/test_programs.py",
    ),
    "tasks/judges.py": ("tests/tasks/test_judges.py", "tests/tasks/test_fidelity.py"),
    "tasks/knowledge.py": ("tests/tasks/test_knowledge.py", f"{TRAVEL}::test_of_a_surrogate"),
    "tasks/lowres_fid.py": ("tests/tasks/test_published_fid.py",),
    "tasks/reconstructions.py": (
        "tests/tasks/test_reconstructions.py",
        "tests/tasks/test_left_images.py",
        f"{ATTACKS_TRAVEL}::test_of_the_reconstructions",
        "tests/tasks/test_official_reports.py",
    ),
    "tasks/manifests.py": (
        "tests/tasks/test_manifests.py",
        "tests/tasks/test_judges.py",
        "tests/tasks/test_feature_space.py",
    ),
    "tasks/prior.py": ("tests/tasks/test_prior.py",),
    "tasks/distributed.py": ("tests/tasks/test_distributed.py",),
    "tasks/stylegan.py": ("tests/tasks/test_prior.py", f"{DATA_TRAVEL}::test_of_a_trained_generator"),
    "tasks/settings.py": (
        "tests/tasks/test_feature_space.py",
        "tests/tasks/test_attack.py",
        "tests/tasks/test_target.py",
        OF_AN_ATTACK,
        *OF_A_TRAINING,
        "tests/orchestrator/commands/test_before_work.py",
    ),
    "tasks/weight_checks.py": ("tests/tasks/test_weight_checks.py", "tests/orchestrator/commands/test_before_work.py"),
    "tasks/target.py": ("tests/tasks/test_target.py", "tests/tasks/test_defended.py", "tests/tasks/test_protocols.py"),
    "tasks/toy.py": ("tests/tasks/test_toy.py",),
    "tasks/training.py": (
        "tests/tasks/test_target.py",
        "tests/tasks/test_training.py",
        "tests/tasks/test_defended.py",
        *OF_A_TRAINING,
    ),
    "tasks/parts.py": (
        "tests/tasks/test_plg.py",
        "tests/tasks/test_imported_gans.py",
        "tests/tasks/test_attack.py",
        OF_AN_ATTACK,
    ),
    "tasks": ("tests/tasks/test_attack.py", OF_AN_ATTACK),
    "sweeps/defenses.py": ("tests/sweeps/test_defenses.py", FAR),
    "sweeps/dimension.py": ("tests/sweeps/test_space.py", "tests/sweeps/test_search.py"),
    "sweeps/expand.py": tuple(
        f"tests/sweeps/test_{name}.py" for name in ("load", "cells", "repeats", "portfolio", "search", "unread")
    ),
    "sweeps/imported.py": (
        "tests/sweeps/test_imported_cards.py",
        "tests/orchestrator/stages/test_imported_reading.py",
        FAR,
    ),
    "sweeps/paper_numbers.py": ("tests/sweeps/test_paper_numbers.py",),
    "sweeps/paper_settings.py": tuple(
        f"tests/sweeps/test_{name}.py"
        for name in ("published_settings", "departures", "every_departure", "paper_numbers")
    ),
    "sweeps/recipes.py": ("tests/sweeps/test_search.py", "tests/orchestrator/search/test_agenda.py"),
    "sweeps/search.py": ("tests/sweeps/test_search.py", FAR),
    "sweeps/space.py": ("tests/sweeps/test_space.py", "tests/sweeps/test_search.py"),
    "sweeps/target_outputs.py": ("tests/orchestrator/commands/test_programs.py", "tests/sweeps/test_defenses.py"),
    "sweeps": SPANNING,
    "core": ("tests/core/test_same_code.py",),
    "orchestrator/reading/audit": AUDITED,
    "orchestrator/reading/audit/result.py": AUDITED,
    "orchestrator/reading/audit/as_json.py": AUDITED[2:],
    "orchestrator/reading/results.py": (
        "tests/orchestrator/reading/test_missing_reasons.py",
        "tests/sweeps/test_portfolio.py",
        "tests/orchestrator/reading/test_balanced.py",
        "tests/orchestrator/reading/test_image_counts.py",
        "tests/orchestrator/commands/reporting/test_search_report.py",
    ),
    "orchestrator/reading/toy.py": ("tests/orchestrator/page/test_toy.py", f"{READ}/test_model.py"),
    "orchestrator/reading/numbers/model.py": (f"{READ}/test_model.py", f"{READ}/test_summary.py"),
    "orchestrator/reading/numbers/summary.py": tuple(
        f"{READ}/test_{name}.py"
        for name in (
            "summary",
            "cells",
            "portfolio",
            "one_verdict",
            "queries",
        )
    ),
    "orchestrator/reading/numbers/estimates.py": tuple(
        f"{READ}/test_{name}.py"
        for name in (
            "estimates",
            "summary",
            "cells",
            "evidence",
        )
    ),
    "orchestrator/reading/numbers/evidence.py": tuple(
        f"{READ}/test_{name}.py"
        for name in (
            "evidence",
            "cells",
            "one_verdict",
            "hiding",
        )
    ),
    "orchestrator/reading/numbers/cells.py": tuple(
        f"{READ}/test_{name}.py"
        for name in (
            "cells",
            "worst_attack",
            "evidence",
        )
    ),
    "orchestrator/reading/numbers/decision.py": tuple(
        f"{READ}/test_{name}.py"
        for name in (
            "cells",
            "findings",
            "comparing",
        )
    ),
    "orchestrator/reading/numbers/looks.py": (f"{READ}/test_looks.py",),
    "orchestrator/reading/numbers/format.py": (f"{READ}/test_format.py", f"{READ}/test_findings.py"),
    "orchestrator/reading/findings/searches.py": (
        f"{READ}/test_search.py",
        "tests/orchestrator/commands/reporting/test_search_report.py",
    ),
    "orchestrator/reading/findings/uncertainty.py": (f"{READ}/test_comparing.py", f"{READ}/test_findings.py"),
    "orchestrator/reading/defenses/costs.py": (f"{READ}/defenses/test_costs.py", f"{READ}/test_comparing.py"),
    "orchestrator/reading": (),
    "orchestrator/stages/graph.py": (
        "tests/orchestrator/planning/test_trial.py",
        "tests/orchestrator/stages/test_identity.py",
        "tests/orchestrator/stages/test_judges.py",
        FAR,
        "tests/orchestrator/planning/test_plan.py",
    ),
    "orchestrator/stages/fingerprints.py": ("tests/orchestrator/planning/test_plan.py", GRAPH),
    "orchestrator/stages/judges.py": (
        "tests/orchestrator/stages/test_judges.py",
        GRAPH,
        "tests/orchestrator/stages/test_identity.py",
        FAR,
    ),
    "orchestrator/stages/judge_availability.py": ("tests/orchestrator/stages/test_judges.py", FAR),
    "orchestrator/planning/trial.py": ("tests/orchestrator/planning/test_plan.py", FAR),
    "orchestrator/planning/plan.py": ("tests/orchestrator/planning/test_plan.py",),
    "orchestrator/planning/history.py": (
        "tests/orchestrator/planning/test_measurements.py",
        "tests/orchestrator/planning/test_plan.py",
    ),
    "orchestrator/scheduling/limits.py": ("tests/orchestrator/scheduling/test_limits.py",),
    "orchestrator/scheduling/execute.py": (
        "tests/orchestrator/store/test_local.py",
        "tests/orchestrator/running/test_two_drivers.py",
        "tests/tasks/test_context.py",
        "tests/tasks/test_target.py",
    ),
    "orchestrator/commands/batch": ("tests/orchestrator/commands/batch",),
    "orchestrator/commands/audit/queries.py": tuple(
        f"tests/orchestrator/commands/test_audit_{name}.py" for name in ("queries", "membership")
    ),
    "orchestrator/store": STORING,
    "orchestrator/store/linked.py": ("tests/orchestrator/store/test_several_linked.py",),
    "orchestrator/store/remote": STORING,
    "orchestrator/store/opening.py": STORING[:1],
    "orchestrator/store/remote/joining.py": STORING[2:],
    "orchestrator/store/remote/layout.py": STORING[2:],
    "orchestrator/store/common/verifying.py": STORING,
    "orchestrator/store/local.py": (*STORING, "tests/orchestrator/running/test_two_drivers.py"),
    "orchestrator": (FAR, "tests/orchestrator/stages/test_identity.py", "tests/orchestrator/planning/test_plan.py"),
}
"""Module, or folder of those that have no test file of their name, -> test files, folders, or functions of a file."""

BESIDE = {
    "tasks": (),
    "core/pickles": PICKLED,
    "core/audit": AUDITS,
    "sweeps": (KEPT, FAR),
    "core/attacks": FAMILY,
    "core/attacks/ppa": (DECLARED,),
    "core/attacks/plg": (DECLARED,),
    "core/attacks/black_box": (DECLARED,),
    "core/attacks/lowres": ("tests/core/attacks/lowres", DECLARED),
    "core/membership": ("tests/core/membership",),
    "core/external": (f"{OUT}/test_kinds.py", f"{OUT}/test_isolation_consent.py"),
    "orchestrator/commands/batch": ("tests/orchestrator/commands/batch",),
    "core/isolation": ("tests/core/isolation",),  # most of it runs in another process, which the room's tests start
}
"""Folder -> what is asked beside the test file of a module's name."""


BY_ALL = {"orchestrator/reading": (READ,)}
"""Room -> the folders whose tests every module of it is asked of in the end, since the room is read as one."""
