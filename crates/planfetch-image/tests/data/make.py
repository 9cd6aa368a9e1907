"""Makes the small JPEG files that image encoders in Rust do not write, and the pixels that they should become.

    python3 make.py        (Pillow 11 or later)
"""

from pathlib import Path

from PIL import Image, ImageOps

here = Path(__file__).parent
picture = Image.new("RGB", (40, 24))
picture.putdata([(x * 6, y * 10, (x + y) * 4) for y in range(24) for x in range(40)])

picture.save(here / "progressive.jpg", quality=95, progressive=True)
picture.save(here / "rgb.jpg", quality=95, keep_rgb=True)
picture.convert("CMYK").save(here / "cmyk.jpg", quality=95)

for name in ["progressive", "rgb", "cmyk"]:
    image = ImageOps.exif_transpose(Image.open(here / f"{name}.jpg"))
    image.convert("RGB").save(here / f"{name}.rgb.png")
    image.convert("L").save(here / f"{name}.gray.png")
