"""The stages of judges whose numbers are kept, beside those of the tiny trial."""

from smoothsweep.orchestrator.stages.stage import Stage


def by_fidelity(pipeline, protocol, folder):
    network = {"network": "fid_inception", "protocol": protocol}
    data, reconstructions = pipeline.stage("judge_evaluator.real.data"), pipeline.stage("loot")
    real = Stage(name="embeddings", config={**network, "parts": ["train"]}, inputs={"data": data})
    return Stage(
        name="judge_fidelity", config={**network, "neighbours": 2}, inputs={"real": real, "loot": reconstructions}
    )


def by_general_features(pipeline, protocol, folder):
    data, reconstructions = (pipeline.stage(name) for name in ("judge_embedder.real.data", "loot"))
    network = {"network": "swag_vit_b_16"}
    real = Stage(name="embeddings", config=network, inputs={"data": data})
    return Stage(name="judge_general", config=network, inputs={"real": real, "loot": reconstructions})


def general_beside(name, role):
    """What stands beside the general judge: the embedder's own, in its features."""

    def make(pipeline, protocol, folder):
        own = pipeline.stage(name.removesuffix("_general"))
        general = by_general_features(pipeline, protocol, folder)
        strangers = own.inputs["strangers"]
        inputs = {
            "real": general.inputs["real"],
            "strangers": Stage(
                name="strangers", config={**general.config, "most": strangers.config["most"]}, inputs=strangers.inputs
            ),
            role: own.inputs[role],
        }
        closed = {"closed": "general"} if "closed" in own.config else {}
        return Stage(name=name, config={**general.config, "prefix": "general_", **closed}, inputs=inputs)

    return make


def of_features(pipeline, protocol, folder):
    data, target = pipeline.stage("data"), pipeline.stage("target")
    inputs = {"data": data, "network": target}
    features = Stage(name="embeddings", config={"network": "target", "parts": ["train"]}, inputs=inputs)
    config = {"classes": 100, "perplexity": 5.0, "seed": 0}
    return Stage(name="judge_features", config=config, inputs={"features": features, "data": data})


def by_robustness(pipeline, protocol, folder):
    settings = {"eps": 0.1, "step": 0.05, "steps": 2, "generations": 1, "strong_steps": 2, "images": 6}
    inputs = {"target": pipeline.stage("target"), "data": pipeline.stage("data")}
    return Stage(name="judge_robustness", config={"settings": settings}, inputs=inputs)


def shadow(pipeline, protocol, folder, number=0):
    config = {**pipeline.stage("target").config, "part": {"model": number, "share": 0.5, "seed": 0}}
    return Stage(name="shadow", config={**config, "seed": 7 + number}, inputs={"data": pipeline.stage("data")})


def by_membership(pipeline, protocol, folder):
    inputs = {"target": pipeline.stage("target"), "data": pipeline.stage("data")}
    inputs |= {f"shadow_{number:04d}": shadow(pipeline, protocol, folder, number) for number in range(4)}
    settings = {"shadows": 4, "copies": 2, "levels": 2}
    return Stage(name="judge_membership", config={"settings": settings}, inputs=inputs)


def poison(pipeline, protocol, folder):
    config = {"poison": {"kind": "blended", "share": 0.3, "target": 1}, "image_size": 32, "seeds": [0, 1]}
    return Stage(name="poison", config=config, inputs={"data": pipeline.stage("data")})


def backdoor(pipeline, protocol, folder):
    target, planted = pipeline.stage("target"), poison(pipeline, protocol, folder)
    poisoned = Stage(name="target", config=target.config, inputs={**target.inputs, "poison": planted})
    return Stage(name="backdoor", config={}, inputs={**target.inputs, "target": poisoned, "poison": planted})


def decoded(pipeline, protocol):
    """The reconstructions, under paper with the images as they were decoded."""
    reconstructions = pipeline.stage("loot")
    kept = {"decoded": 32} if protocol == "paper" else {}
    return Stage(name="loot", config={**reconstructions.config, **kept}, inputs=reconstructions.inputs)


def by_published_fid(name):
    def make(pipeline, protocol, folder):
        network = {"network": name, "side": 32}
        data = pipeline.stage("judge_evaluator.real.data")
        real = Stage(name="embeddings", config={**network, "parts": ["train"]}, inputs={"data": data})
        inputs = {"real": real, "loot": decoded(pipeline, protocol), "verdicts": pipeline.stage("judge_evaluator")}
        return Stage(name=f"judge_{name}", config=network, inputs=inputs)

    return make


def by_reporting_evaluator(pipeline, protocol, folder):
    """With the report of GMI's own evaluation, of any attack; under clean, which has none, with LOMMA's."""
    stage = pipeline.stage("judge_evaluator")
    inputs = {
        **stage.inputs,
        "loot": decoded(pipeline, protocol),
        "attack": pipeline.stage("attack"),
        "target": pipeline.stage("target"),
    }
    config = {**stage.config, "report": {"of": "gmi" if protocol == "paper" else "lomma", "classes": 2}}
    return Stage(name="judge_evaluator", config=config, inputs=inputs)


def gradients(pipeline, protocol, folder):
    settings = {
        "per_class": 3,
        "seed": 2,
        "truncation_psi": 0.7,
        "crop": 28,
        "steps": 4,
        "lr": 0.05,
        "betas": [0.1, 0.1],
        "crop_scale": [0.9, 1.0],
    }
    config = {"settings": settings, "classes": "all", "image_size": 32, "protocol": protocol}
    inputs = {"target": pipeline.stage("target"), "prior": pipeline.stage("attack.prior")}
    return Stage(name="judge_gradients", config=config, inputs=inputs)
