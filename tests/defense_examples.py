"""Parameters with which every defense can be tried: those it needs, one value each."""

EXAMPLES = {
    "label_smoothing": {},
    "mid": {"beta": 0.005},
    "bido": {"lambda_input": 0.05, "lambda_label": 0.5},
    "freeze": {"stages": 1},
    "random_erasing": {},
    "skip_removal": {},
    "dropout": {"p": 0.3},
    "weight_decay": {"value": 1e-3},
    "focal": {"gamma": 2.0},
    "confidence_penalty": {"beta": 0.1},
    "mixup": {"alpha": 0.4},
    "logit_clipping": {"norm": 1.0},
    "loft": {"rank": 5},
    "at_at": {},
    "ssd": {"eps": 0.5},
    "dp_sgd": {"noise": 0.5},
    "trap_mid": {},
}
