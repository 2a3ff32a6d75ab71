"""Which tests are asked about modules of core beside those of their names, and the names of groups of tests."""

from __future__ import annotations

TRAVEL, FAR = "tests/tasks/test_settings_travel.py", "tests/orchestrator/test_settings_travel.py"
ATTACKS_TRAVEL, DATA_TRAVEL = (f"tests/tasks/test_{what}_settings_travel.py" for what in ("attack", "data"))
STORING = tuple(
    f"tests/orchestrator/store/{name}.py"
    for name in ("test_local", "test_damage", "remote/test_store", "remote/test_harm", "remote/test_seen_elsewhere")
)
DECLARED, GRAPH = "tests/core/attacks/test_declarations.py", "tests/orchestrator/stages/test_graph.py"
KEPT = "tests/sweeps/test_kept_schema.py"
FAMILY = (
    DECLARED,
    KEPT,
    "tests/core/attacks/test_family_settings.py",
    "tests/core/attacks/test_family.py",
    "tests/core/attacks/ppa/test_stages.py",
    "tests/tasks/test_attack.py",
)
LATENTS = ("tests/core/attacks/black_box/test_brep_mi.py", "tests/core/attacks/black_box/test_brep_golden.py", *FAMILY)
LEARNT = (
    "tests/core/attacks/black_box/test_rlb_mi.py",
    "tests/core/attacks/black_box/test_rlb_golden.py",
    "tests/core/attacks/black_box/test_soft_actor_critic.py",
    *FAMILY,
)
AUDITS = ("tests/test_smoothsweep.py",)
FOREIGN = (
    "tests/core/priors/official/test_hostile.py",
    "tests/core/priors/official/test_bombs.py",
    "tests/core/pickles/test_storages.py",
    "tests/core/models/test_pretrained.py",
)
PICKLED = tuple(
    f"tests/core/pickles/test_{name}.py"
    for name in ("checkpoint_parts", "checkpoints", "hostile_checkpoints", "opcodes")
)
SCRIPTED = tuple(f"tests/core/external/test_{name}.py" for name in ("script_code", "script_statements", "escapes"))
READ = "tests/orchestrator/reading"
AUDITED = tuple(f"{READ}/audit/test_{name}.py" for name in ("result", "found_numbers", "as_json", "references"))
OUT = "tests/core/external"
SPANNING = ("tests/sweeps/test_mistakes.py", "tests/sweeps", FAR)
OF_AN_ATTACK = f"{ATTACKS_TRAVEL}::test_of_an_attack"
OF_A_TRAINING = (f"{TRAVEL}::test_of_a_target", f"{TRAVEL}::test_of_an_augmentation", f"{TRAVEL}::test_of_a_defense")
OF_PICTURES = (f"{DATA_TRAVEL}::test_of_labelled_pictures", f"{DATA_TRAVEL}::test_of_unlabelled_pictures")

OF_CORE: dict[str, tuple[str, ...]] = {
    "core/attacks/ppa/inversion.py": (
        "tests/core/attacks/ppa/test_ppa.py",
        "tests/core/attacks/ppa/test_ppa_golden.py",
        "tests/core/attacks/shared/test_execution.py",
        "tests/tasks/test_attack.py",
    ),
    "core/attacks/shared/execution.py": (
        "tests/core/attacks/shared/test_execution.py",
        "tests/core/attacks/shared/test_prepared_networks.py",
        "tests/core/attacks/surrogate/test_surrogate.py",
    ),
    "core/attacks/optimisation/crop_rule.py": ("tests/core/attacks/optimisation/test_crops.py", *FAMILY),
    "core/attacks/ppa/batching.py": (
        "tests/core/attacks/shared/test_execution.py",
        "tests/core/attacks/ppa/test_ppa.py",
        "tests/tasks/test_attack.py",
    ),
    "core/attacks/optimisation/objective.py": (
        "tests/core/attacks/optimisation/test_descent.py",
        "tests/core/attacks/ppa/test_ppa.py",
        "tests/core/attacks/ppa/test_ppa_golden.py",
        "tests/core/attacks/shared/test_execution.py",
        "tests/core/attacks/ppa/test_adaptive.py",
    ),
    "core/attacks/ppa/pool_parts.py": ("tests/core/attacks/ppa/test_pool.py", *FAMILY),
    "core/attacks/ppa/restarts.py": ("tests/core/attacks/ppa/test_adaptive.py",),
    "core/attacks/ppa/config.py": ("tests/core/attacks/ppa/test_ppa_config.py", *FAMILY),
    "core/attacks/ppa/variants.py": FAMILY,
    "core/attacks/gan/imported.py": ("tests/tasks/test_imported_gans.py",),
    "core/attacks/gan/official.py": ("tests/core/attacks/gan/test_official.py", "tests/tasks/test_imported_gans.py"),
    "core/attacks/registry.py": (
        DECLARED,
        "tests/tasks/test_stage_numbers.py::test_every_version_is_that_of_the_kept_numbers",
        *FAMILY,
    ),
    "core/attacks/ppa/results.py": ("tests/core/attacks/ppa/test_ppa.py", *FAMILY),
    "core/attacks/black_box/boundary_repulsion.py": LATENTS,
    "core/attacks/black_box/brep_mi.py": LATENTS,
    "core/attacks/black_box/brep_robust.py": LATENTS,
    "core/attacks/black_box/brep_starts.py": LATENTS,
    "core/attacks/black_box/latent_images.py": (*LATENTS, "tests/core/attacks/black_box/test_rlb_mi.py"),
    "core/attacks/black_box/latent_settings.py": (*LATENTS, "tests/core/attacks/black_box/test_rlb_mi.py"),
    "core/attacks/black_box/rlb_learner.py": LEARNT,
    "core/attacks/black_box/rlb_mi.py": LEARNT,
    "core/attacks/black_box/rlb_search.py": LEARNT,
    "core/attacks/black_box/soft_actor_critic.py": LEARNT,
    "core/attacks/plg": ("tests/core/attacks/plg", *FAMILY),
    "core/attacks/lowres": ("tests/core/attacks/lowres", DECLARED),
    "core/attacks": FAMILY,
    "core/audit/attacking.py": AUDITS,
    "core/audit/checking.py": AUDITS,
    "core/audit/pictures.py": AUDITS,
    "core/audit/references.py": (
        "tests/orchestrator/commands/test_audit_sweep.py",
        "tests/orchestrator/commands/test_audit_time.py",
    ),
    "core/audit/portfolio.py": ("tests/orchestrator/commands/test_audit_sweep.py",),
    "core/audit/training.py": ("tests/orchestrator/commands/test_audit_time.py",),
    "core/audit/membership.py": (*AUDITS, f"{READ}/audit/test_members.py"),
    "core/audit": ("tests/core/audit", *AUDITS),
    "core/judges": ("tests/core/metrics/test_table.py", "tests/orchestrator/stages/test_judges.py"),
    "core/metrics": ("tests/core/metrics",),
    "core/pickles": (*PICKLED, *FOREIGN),
    "core/external/address.py": (f"{OUT}/test_endpoint.py", f"{OUT}/test_vision_model.py"),
    "core/external/consent.py": (f"{OUT}/test_isolation_consent.py",),
    "core/external/running.py": (f"{OUT}/test_function.py",),
    "core/external/opening.py": tuple(f"{OUT}/test_{name}.py" for name in ("model", "kinds", "onnx", "programs")),
    "core/external/reading.py": (f"{OUT}/test_model.py",),
    "core/external/script_body.py": SCRIPTED,
    "core/external/base.py": (f"{OUT}/test_kinds.py", f"{OUT}/test_http_endpoint.py", f"{OUT}/test_programs.py"),
    "core/external/script_names.py": SCRIPTED,
    "core/external/script_code.py": (f"{OUT}/test_escapes.py",),
    "core/external/exported.py": tuple(f"{OUT}/test_{name}.py" for name in ("kinds", "programs", "program_escapes")),
    "core/external/wire.py": (f"{OUT}/test_wire_secure.py",),
    "core/external/onnx_file.py": tuple(
        f"{OUT}/test_{name}.py" for name in ("kinds", "onnx_conversion", "onnx_escapes", "onnx")
    ),
    "core/readers/archives.py": (f"{OUT}/test_junk.py", "tests/core/readers/test_archives.py"),
    "core/external/endpoint.py": (f"{OUT}/test_hostile_answers.py", f"{OUT}/test_endpoint_answers.py"),
    "core/external/torchscript.py": tuple(
        f"{OUT}/test_{name}.py" for name in ("kinds", "junk", "escapes", "program_escapes")
    ),
    "core/external/operators.py": (f"{OUT}/test_graph_escapes.py", f"{OUT}/test_escapes.py"),
    "core/external/timm_network.py": (f"{OUT}/test_timm.py",),
    "core/external": (f"{OUT}/test_programs.py",),
    "core/isolation": ("tests/core/isolation", "tests/core/external/test_isolation_consent.py"),
    "core/readers": ("tests/core/readers",),
    "core/membership": ("tests/core/membership", "tests/tasks/test_membership.py"),
    "core/judges/verification.py": (
        "tests/core/metrics/test_table.py",
        "tests/orchestrator/stages/test_judges.py",
        "tests/orchestrator/planning/test_trial.py",
        GRAPH,
    ),
}
"""As `tables.TESTS`, of the modules of core."""
