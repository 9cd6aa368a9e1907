"""Makes `torchvision/`: an image, what torchvision's transforms make of it, and the distributions of what they draw.

    pip install torch==2.9.0 torchvision==0.24.0 pillow==12.0.0 numpy==2.4.6
    python3 make_torchvision.py

`manifest.json` lists the results: which backend made them, and how far ours may be off: in the mean, and at most.
"""

import json
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

HERE = Path(__file__).parent / "torchvision"
WIDTH, HEIGHT = 48, 37

y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
base = np.stack([x * 4 + 30, y * 5 + 20, 200 - x * 2 - y], axis=2)
base[6:16, 26:40] = [230, 40, 30]
base[18:30, 5:20] = [20, 190, 240]
noise = np.random.default_rng(7).integers(-18, 19, base.shape)
PICTURE = Image.fromarray((base + noise).clip(0, 255).astype(np.uint8))
TENSOR = F.pil_to_tensor(PICTURE)

NEAREST, BILINEAR, BICUBIC = InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC

# Name, function, mean and largest difference allowed. What resizes may be off by rounding at every pixel; what computes
# with bytes has to be the same.
SAME = (0.0, 0)
CASES = [
    ("resize_shorter_20", lambda i: v2.Resize(20)(i), (0.5, 2)),
    ("resize_shorter_20_max_24", lambda i: v2.Resize(20, max_size=24)(i), (0.5, 2)),
    ("resize_exact_bilinear", lambda i: v2.Resize([16, 31])(i), (0.5, 2)),
    ("resize_exact_bicubic", lambda i: v2.Resize([16, 31], interpolation=BICUBIC)(i), (0.5, 2)),
    # At a scale where no pixel's middle falls between two: there PIL's rounding decides.
    ("resize_exact_nearest", lambda i: v2.Resize([16, 32], interpolation=NEAREST)(i), SAME),
    ("resize_larger_bilinear", lambda i: v2.Resize([60, 70])(i), (0.5, 2)),
    ("resize_larger_bicubic", lambda i: v2.Resize([60, 70], interpolation=BICUBIC)(i), (0.5, 4)),
    ("resized_crop", lambda i: F.resized_crop(i, 5, 9, 23, 30, [14, 14]), (0.5, 2)),
    ("center_crop", lambda i: v2.CenterCrop([20, 31])(i), SAME),
    ("center_crop_larger", lambda i: v2.CenterCrop([44, 31])(i), SAME),
    ("resize_center_crop", lambda i: v2.Compose([v2.Resize(24), v2.CenterCrop(20)])(i), (0.5, 2)),
    ("horizontal_flip", F.horizontal_flip, SAME),
    ("vertical_flip", F.vertical_flip, SAME),
    ("rotate_30_nearest", lambda i: F.rotate(i, 30.0, fill=[9, 8, 7]), (0.05, 255)),
    ("rotate_30_bilinear", lambda i: F.rotate(i, 30.0, BILINEAR, fill=[9, 8, 7]), (0.1, 255)),
    ("rotate_minus_100_expand", lambda i: F.rotate(i, -100.0, expand=True), (0.05, 255)),
    ("rotate_90_expand", lambda i: F.rotate(i, 90.0, expand=True), SAME),
    ("shear_x", lambda i: F.affine(i, 0.0, [0, 0], 1.0, [math.degrees(math.atan(0.3)), 0.0], center=[0, 0]), (0.05, 255)),
    ("shear_y", lambda i: F.affine(i, 0.0, [0, 0], 1.0, [0.0, math.degrees(math.atan(-0.3))], BILINEAR, center=[0, 0]), (0.1, 255)),
    ("translate", lambda i: F.affine(i, 0.0, [7, -4], 1.0, [0.0, 0.0], fill=[1, 2, 3]), SAME),
    ("brightness_0.5", lambda i: F.adjust_brightness(i, 0.5), SAME),
    ("brightness_1.7", lambda i: F.adjust_brightness(i, 1.7), SAME),
    ("contrast_0.3", lambda i: F.adjust_contrast(i, 0.3), SAME),
    ("contrast_1.8", lambda i: F.adjust_contrast(i, 1.8), SAME),
    ("saturation_0.4", lambda i: F.adjust_saturation(i, 0.4), SAME),
    ("saturation_2.1", lambda i: F.adjust_saturation(i, 2.1), SAME),
    ("sharpness_0.2", lambda i: F.adjust_sharpness(i, 0.2), SAME),
    ("sharpness_1.9", lambda i: F.adjust_sharpness(i, 1.9), SAME),
    ("grayscale", lambda i: F.rgb_to_grayscale(i, num_output_channels=3), SAME),
    ("posterize_3", lambda i: F.posterize(i, 3), SAME),
    ("solarize_100", lambda i: F.solarize(i, 100), SAME),
    ("autocontrast", lambda i: F.autocontrast(F.adjust_contrast(i, 0.4)), SAME),
    ("equalize", F.equalize, SAME),
]
# PIL's hues have 256 levels, so these are compared with tensors.
TENSOR_CASES = [
    ("hue_0.1", lambda i: F.adjust_hue(i, 0.1), (0.02, 1)),
    ("hue_minus_0.3", lambda i: F.adjust_hue(i, -0.3), (0.02, 1)),
    ("hue_0.5", lambda i: F.adjust_hue(i, 0.5), (0.02, 1)),
    ("tensor_resize_shorter_20", lambda i: v2.Resize(20)(i), (1.0, 3)),
    ("tensor_resize_exact_bicubic", lambda i: v2.Resize([16, 31], interpolation=BICUBIC)(i), (1.0, 3)),
    ("tensor_center_crop", lambda i: v2.CenterCrop([20, 31])(i), SAME),
    ("tensor_brightness_1.7", lambda i: F.adjust_brightness(i, 1.7), (0.05, 1)),
    ("tensor_contrast_1.8", lambda i: F.adjust_contrast(i, 1.8), (1.0, 1)),
    ("tensor_saturation_2.1", lambda i: F.adjust_saturation(i, 2.1), (1.0, 3)),
]


def quantiles(values):
    return [float(q) for q in np.quantile(values, np.linspace(0, 1, 101))]


def drawn(transform, names, n=20000):
    """The areas, as parts of the image's, and the ratios, width to height, of what a transform draws."""
    image = torch.zeros(3, 375, 500, dtype=torch.uint8)
    torch.manual_seed(3)
    params = [transform.make_params([image]) for _ in range(n)]
    height, width = (np.array([p[name] for p in params], dtype=float) for name in names)
    return {"area": quantiles(height * width / (375 * 500)), "ratio": quantiles(width / height)}


HERE.mkdir(exist_ok=True)
for old in HERE.iterdir():
    old.unlink()
PICTURE.save(HERE / "input.png", optimize=True)
manifest = {"cases": []}
for cases, backend, image in [(CASES, "PIL", PICTURE), (TENSOR_CASES, "tensor", TENSOR)]:
    for name, function, (mean, most) in cases:
        result = function(image)
        result = result if backend == "PIL" else F.to_pil_image(result)
        result.save(HERE / f"{name}.png", optimize=True)
        manifest["cases"].append({"name": name, "backend": backend, "mean": mean, "most": most})
manifest["RandomResizedCrop"] = drawn(v2.RandomResizedCrop(224), ["height", "width"])
manifest["RandomErasing"] = drawn(v2.RandomErasing(p=1.0, scale=(0.02, 0.2)), ["h", "w"])
(HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")

# The first rows, normalised, of shape [3, 8, 48], as little-endian floats.
normalize = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
normalize(TENSOR[:, :8]).numpy().astype("<f4").tofile(HERE / "normalized.f32")
