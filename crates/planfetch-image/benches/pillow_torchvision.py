"""The same work as `images.rs` in Python, on one thread: Pillow decodes, torchvision resizes and normalises.

    pip install torch==2.9.0 torchvision==0.24.0 pillow==12.0.0
    cargo bench -p planfetch-image -- --write DIR
    python3 pillow_torchvision.py DIR
"""

import io
import statistics
import sys
import time
from pathlib import Path

import torch
from PIL import Image
from torchvision.transforms import v2

ROUNDS = 7

torch.set_num_threads(1)
files = [path.read_bytes() for path in sorted(Path(sys.argv[1]).rglob("*.jpg"))][:64]
resize = v2.Resize([224, 224])
normalize = v2.Compose(
    [
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)
batch = torch.empty(len(files), 3, 224, 224)


def decode(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


times = {"decode": [], "resize to 224": [], "normalise": [], "whole": []}
images = [decode(data) for data in files]
small = [resize(image) for image in images]
for _ in range(ROUNDS):
    start = time.perf_counter()
    for data in files:
        decode(data)
    times["decode"].append(time.perf_counter() - start)
    start = time.perf_counter()
    for image in images:
        resize(image)
    times["resize to 224"].append(time.perf_counter() - start)
    start = time.perf_counter()
    for i, image in enumerate(small):
        batch[i] = normalize(image)
    times["normalise"].append(time.perf_counter() - start)
    start = time.perf_counter()
    for i, data in enumerate(files):
        batch[i] = normalize(resize(decode(data)))
    times["whole"].append(time.perf_counter() - start)

print(f"{len(files)} JPEG files, one thread, median of {ROUNDS} rounds")
for name, rounds in times.items():
    seconds = statistics.median(rounds) / len(files)
    print(f"{name:<26}{seconds * 1e6:9.1f} us {1 / seconds:8.0f} images/s")
