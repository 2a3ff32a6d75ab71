"""The columns of the low-resolution attacks' own evaluations, rows of `core.metrics.table`. Loads nothing."""

from __future__ import annotations

from smoothsweep.core.metrics.columns.metric import AT_LEAST_0, Metric

REPORT_NULL = (
    "only protocol paper has it, of attacks whose official code reports it, and with several images of each class"
)
GMI_NULL = "only attack gmi has it, under protocol paper"
FID_NULL = "the evaluator takes fewer than two reconstructions for their class"


LOWRES_METRICS: tuple[Metric, ...] = (
    Metric(
        key="attack_acc1_std_batches",
        label="evaluator, published spread over restarts",
        unit="percent",
        better=None,
        group="leak",
        measured_by="evaluator",
        spread=True,
        null=REPORT_NULL,
        description="Standard deviation of Acc@1 over the restarts, in batches of 60 classes as the attack's official "
        "code takes them: the mean of the batches' deviations (LOMMA's evaluation), or the root of the mean of their "
        "variances (PLG-MI's).",
    ),
    Metric(
        key="gmi_acc",
        label="GMI's own Acc",
        unit="percent",
        better="low",
        group="leak",
        measured_by="evaluator",
        null=GMI_NULL,
        description="Share of classes whose restart of the largest target logit the evaluator takes for the class: "
        "what GMI's own code prints as Acc.",
    ),
    Metric(
        key="gmi_acc_any",
        label="GMI's own Acc5",
        unit="percent",
        better="low",
        group="leak",
        measured_by="evaluator",
        null=GMI_NULL,
        description="Share of classes that the evaluator recognises in at least one restart: what GMI's own code "
        "prints as Acc5. No top-5 accuracy.",
    ),
    Metric(
        key="fid_lomma",
        label="FID as LOMMA publishes it",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        measured_by="fid_lomma",
        null=FID_NULL,
        description="Frechet distance of the reconstructions that the evaluator takes for their class to the training "
        "images of the attacked classes, in the Inception network of 2015 that is shown the bright half of the range.",
    ),
    Metric(
        key="fid_lomma_images",
        label="images behind LOMMA's FID",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        measured_by="fid_lomma",
        description="How many reconstructions the evaluator takes for their class: the sample of that FID.",
    ),
    Metric(
        key="fid_plg",
        label="FID as PLG-MI publishes it",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        measured_by="fid_plg",
        null=FID_NULL,
        description="Frechet distance of the reconstructions that the evaluator takes for their class, each stretched "
        "to the whole range, to all private training images, in torchvision's Inception of ImageNet; of both, what "
        "fills no batch of 100 is left out.",
    ),
    Metric(
        key="fid_plg_images",
        label="images behind PLG-MI's FID",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        measured_by="fid_plg",
        description="How many reconstructions the evaluator takes for their class, those left out included.",
    ),
)
