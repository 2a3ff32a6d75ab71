#!/usr/bin/env bash
# A grey PNG of 16 bits: convert clips it to white, ToTensor makes bright pixels negative, v2 alone scales it.
set -euo pipefail
packages="torch==2.11.0 torchvision==0.26.0 pillow==13.0.0 numpy==2.4.6"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if [ -z "${FINDINGS_VENV:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check $packages
fi
"${FINDINGS_VENV:-$work/venv}/bin/python" -W ignore - $packages <<'EOF'
import sys
from importlib.metadata import version

for name, wanted in (pin.split("==") for pin in sys.argv[1:]):
    if version(name.split("[")[0]).split("+")[0] != wanted:
        sys.exit(f"this finding is about {name} {wanted}; installed is {version(name)}")
print("versions:", *sys.argv[1:])

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import ToTensor, v2

Image.fromarray(np.array([[0, 200, 20000, 65535]], dtype=np.uint16)).save("grey.png")
picture = Image.open("grey.png")
modern = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
tensor = ToTensor()(picture)
seen = {
    "pixels": np.asarray(picture).ravel().tolist(),
    "convert('L')": np.asarray(picture.convert("L")).ravel().tolist(),
    "convert('RGB'), red": np.asarray(picture.convert("RGB"))[..., 0].ravel().tolist(),
    "ToTensor": tensor.flatten().tolist(),
    "v2": [round(value, 3) for value in modern(picture).flatten().tolist()],
}
for name, values in seen.items():
    print(f"{name}: {values}")
clipped = [0, 200, 255, 255]
expected = [[0, 200, 20000, 65535], clipped, clipped, [0, 200, 20000, -1], [0.0, 0.003, 0.305, 1.0]]
sys.exit("the behaviour has changed" if list(seen.values()) != expected or tensor.dtype != torch.int16 else 0)
EOF
