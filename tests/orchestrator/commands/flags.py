"""Every flag of every command: what it changes of what the command is asked to do, and the test of what that is for.

`ASKED`: command -> its arguments without flags, and the functions that do its work. `FLAGS`: (command, flag) -> what is
typed, what arrives, and a test, as file::function below `tests/`, that looks at the flag's effect; a file of rows for
each group of commands.
"""

from tests.orchestrator.commands.flag_rows import Flag
from tests.orchestrator.commands.flags_of_models import OF_MODELS
from tests.orchestrator.commands.flags_of_stores import OF_STORES
from tests.orchestrator.commands.flags_of_sweeps import OF_SWEEPS

ASKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": ("s.yaml", ("orchestrator.commands.run:run_and_report",)),
    "plan": (
        "s.yaml",
        (
            "orchestrator.commands.plan:open_store",
            "orchestrator.commands.plan:load_sweep",
            "orchestrator.commands.plan:ProposalLog",
            "orchestrator.commands.plan:forecast_of",
            "orchestrator.commands.plan:make_plan",
            "orchestrator.commands.plan:refuse_impossible",
            "orchestrator.commands.plan:plan_summary",
            "orchestrator.commands.plan:weights_summary",
            "orchestrator.commands.plan:before_data",
            "orchestrator.commands.plan:history_of",
            "orchestrator.commands.plan:power_of_plan",
            "orchestrator.commands.plan:membership_of_plan",
            "orchestrator.commands.plan:plan_text",
        ),
    ),
    "status": (
        "s.yaml",
        (
            "orchestrator.store.opening:open_existing_store",
            "sweeps.load:load_sweep",
            "orchestrator.planning.trials:trials_of",
            "orchestrator.reading.axes:sweep_axes",
            "orchestrator.commands.records.status:status_summary",
            "orchestrator.commands.records.status:status_text",
        ),
    ),
    "report": ("s.yaml", ("orchestrator.commands.run:report_only",)),
    "slurm": ("s.yaml --time 60", ("orchestrator.commands.batch.submit:submit_sweep",)),
    "export": ("s.yaml --out o", ("orchestrator.commands.reporting.sharing.export:export",)),
    "bundle": ("s.yaml b.zip", ("orchestrator.commands.reporting.sharing.bundle:bundle",)),
    **{
        f"store {part}": (words, (f"orchestrator.commands.health.storage.commands:{function}",))
        for part, words, function in (
            ("ls", "", "list_sweeps"),
            ("du", "", "list_sizes"),
            ("gc", "", "collect_garbage"),
            ("verify", "", "verify"),
            ("export", "n o", "export_sweep"),
            ("link", "l", "change_links"),
            ("unlink", "l", "change_links"),
        )
    },
    "study build": ("s.yaml", ("orchestrator.commands.study.build:build_study",)),
    "study read": ("a.json", ("orchestrator.commands.study.read:read_study",)),
    "ui": ("", ("orchestrator.commands.records.ui:serve_pages",)),
    "doctor": (
        "",
        (
            "orchestrator.commands.health.doctor:examine",
            "orchestrator.commands.health.doctor:examine_artifacts",
            "orchestrator.commands.health.calibrating:calibrate",
        ),
    ),
    "audit": ("m.pth --data d", ("orchestrator.commands.audit.auditing:run_audit",)),
    "diff": ("a b", ("orchestrator.commands.records.diff:print_differences",)),
    "lineage": ("a", ("orchestrator.commands.records.lineage:print_lineage",)),
    "rejudge": ("s.yaml --judges a=1", ("orchestrator.commands.records.rejudge:rejudge",)),
    "import prior": (
        "random-face --out o",
        ("orchestrator.commands.importing.random_face:import_random_face",),
    ),
    "import target": ("f.pth --classes 3 --out o", ("orchestrator.commands.importing.converting:import_target_file",)),
    "import gan": (
        "f.tar --part general_gan --out o",
        ("orchestrator.commands.importing.converting:import_gan_files",),
    ),
    "import judge": ("f.pth --out o", ("orchestrator.commands.importing.converting:import_judge_file",)),
    "data check": (
        "p",
        (
            "orchestrator.commands.data.checking:check_own_data",
            "orchestrator.commands.data.checking:check_published_data",
        ),
    ),
    "init": ("", ("orchestrator.commands.data.starting:write_own_sweep",)),
    "weights stage": ("", ("orchestrator.commands.importing.stage_weights:stage_weights_of",)),
}


FLAGS: dict[tuple[str, str], Flag] = OF_SWEEPS | OF_STORES | OF_MODELS
