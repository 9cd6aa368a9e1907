"""Makes `decode/`: small image files of every kind, what Pillow makes of them, and files that are no images.

    pip install pillow==12.0.0 numpy==2.4.6
    python3 make_decode.py

The expected pixels are those of `ImageOps.exif_transpose` and `convert("RGB")`, or `convert("L")`; of samples of 16 bits,
the high byte. `manifest.json` lists the files. What Pillow does not write is written here byte by byte.
"""

import hashlib
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent / "decode"
WIDTH, HEIGHT = 37, 29

y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
PIXELS = np.stack([x * 6 + 16, y * 8 + 8, (x + y) * 3 + 30], axis=2)
PIXELS[4:12, 20:32] = [230, 40, 30]
PIXELS[15:25, 4:14] = [20, 200, 240]
PIXELS = PIXELS.clip(0, 255).astype(np.uint8)
PICTURE = Image.fromarray(PIXELS)
ALPHA = ((x * 7 + y * 5) % 256).astype(np.uint8)

manifest = []


def save(name, data, tolerance, why, expected=None):
    """Writes a file that can be decoded. `expected` is an RGB array where Pillow does something else."""
    (HERE / name).write_bytes(data)
    if expected is None:
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        rgb, gray = image.convert("RGB"), image.convert("L")
    else:
        rgb = Image.fromarray(expected)
        gray = rgb.convert("L")
    entry = {"file": name, "ok": True, "mean_abs_tolerance": tolerance, "why": why, "width": rgb.width, "height": rgb.height}
    for kind, pixels in [("rgb", rgb), ("gray", gray)]:
        # Files that become the same pixels share them.
        digest = hashlib.sha256(pixels.tobytes() + str(pixels.size).encode()).hexdigest()[:12]
        entry[kind] = f"{digest}.{kind}.png"
        pixels.save(HERE / entry[kind], optimize=True)
    manifest.append(entry)


def bad(name, data, why, error):
    """Writes a file that is refused, with a part of the message."""
    (HERE / name).write_bytes(data)
    manifest.append({"file": name, "ok": False, "why": why, "error": error})


def encoded(image, format, **options):
    data = io.BytesIO()
    image.save(data, format, **options)
    return data.getvalue()


def orientation(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def xmp(value, form='="%d"'):
    text = "tiff:Orientation" + form % value
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description {text}/></rdf:RDF></x:xmpmeta>'.encode()


def with_xmp(jpeg, packet):
    packet = b"http://ns.adobe.com/xap/1.0/\0" + packet
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(packet) + 2) + packet + jpeg[2:]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, color_type, rows, interlace=0, extra=b""):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, interlace))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def filtered(array):
    """Rows of bytes, each behind a filter byte of 0."""
    return b"".join(b"\0" + row.tobytes() for row in array)


def adam7(array):
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = [array[top::down, left::right] for top, left, down, right in passes]
    return b"".join(filtered(part) for part in parts if part.size)


def jpegs():
    for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
        save(f"{name}.jpg", encoded(PICTURE, "JPEG", quality=92, subsampling=subsampling), 0.5, f"chroma {name}")
    save("progressive.jpg", encoded(PICTURE, "JPEG", quality=92, progressive=True), 0.5, "progressive")
    save("restart.jpg", encoded(PICTURE, "JPEG", quality=92, restart_marker_blocks=2), 0.5, "restart markers")
    save("gray.jpg", encoded(PICTURE.convert("L"), "JPEG", quality=92), 0.5, "one component")
    save("rgb.jpg", encoded(PICTURE, "JPEG", quality=92, keep_rgb=True), 0.5, "RGB, not YCbCr")
    save("q1.jpg", encoded(PICTURE, "JPEG", quality=1), 0.5, "coarsest quantisation")
    save("q100.jpg", encoded(PICTURE, "JPEG", quality=100), 0.5, "finest quantisation")
    for value in range(1, 9):
        data = encoded(PICTURE, "JPEG", quality=92, exif=orientation(value))
        save(f"exif-{value}.jpg", data, 0.5, f"EXIF orientation {value}")
    upright = encoded(PICTURE, "JPEG", quality=92)
    for value in range(1, 9):
        save(f"xmp-{value}.jpg", with_xmp(upright, xmp(value)), 0.5, f"orientation {value}, by XMP alone")
    save("xmp-element.jpg", with_xmp(upright, xmp(6, ">%d<")), 0.5, "orientation as an element of XMP")
    save("xmp-wrong.jpg", with_xmp(upright, xmp(9)), 0.5, "an orientation that there is not, by XMP")
    both = encoded(PICTURE, "JPEG", quality=92, exif=orientation(3))
    save("xmp-and-exif.jpg", with_xmp(both, xmp(6)), 0.5, "EXIF goes before XMP")
    for width, height in [(1, 1), (1, 64), (64, 1), (17, 13), (8, 8), (9, 7), (2000, 3)]:
        data = encoded(PICTURE.resize((width, height)), "JPEG", quality=92)
        # libjpeg does not smooth chroma of images this narrow.
        save(f"{width}x{height}.jpg", data, 2.0 if width == 1 else 0.5, "odd size")
    plain = encoded(PICTURE, "JPEG", quality=92)
    save("trailing.jpg", plain + bytes(range(256)), 0.5, "bytes behind the end of the image")

    cmyk = encoded(PICTURE.convert("CMYK"), "JPEG", quality=92)
    save("cmyk.jpg", cmyk, 0.5, "CMYK, inverted, as Adobe writes it")
    adobe = cmyk.index(b"\xff\xee")
    length = struct.unpack(">H", cmyk[adobe + 2 : adobe + 4])[0]
    transform = adobe + 2 + length - 1
    assert cmyk[adobe + 4 : adobe + 9] == b"Adobe" and cmyk[transform] == 0
    save("ycck.jpg", cmyk[:transform] + b"\2" + cmyk[transform + 1 :], 0.5, "YCCK: the same numbers, said to be YCCK")
    save("cmyk-plain.jpg", cmyk[:adobe] + cmyk[adobe + 2 + length :], 0.5, "CMYK without Adobe's marker")

    noisy = PIXELS.astype(int) + np.random.default_rng(1).integers(-20, 20, PIXELS.shape)
    noisy = encoded(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), "JPEG", quality=95)
    for percent in [2, 25, 50, 90]:
        bad(f"cut-{percent}.jpg", noisy[: len(noisy) * percent // 100], "JPEG cut short", "JPEG")
    progressive = encoded(PICTURE, "JPEG", quality=95, progressive=True)
    bad("cut-progressive.jpg", progressive[: len(progressive) // 2], "progressive JPEG cut short", "JPEG")
    bad("start-only.jpg", plain[:2], "only the first marker", "JPEG")
    frame = plain.index(b"\xff\xc0")
    huge = plain[: frame + 5] + struct.pack(">HH", 60000, 60000) + plain[frame + 9 :]
    bad("bomb.jpg", huge, "claims 60000 x 60000", "60000 x 60000")


def pngs():
    rgb = encoded(PICTURE, "PNG")
    save("rgb.png", rgb, 0.0, "8 bits, RGB")
    save("png-named.jpg", rgb, 0.0, "a PNG with the wrong extension")
    save("gray.png", encoded(PICTURE.convert("L"), "PNG"), 0.0, "8 bits, gray")
    save("1-bit.png", encoded(PICTURE.convert("1"), "PNG"), 0.0, "1 bit, gray")
    gray_alpha = Image.merge("LA", [PICTURE.convert("L"), Image.fromarray(ALPHA)])
    save("gray-alpha.png", encoded(gray_alpha, "PNG"), 0.0, "alpha dropped")
    rgba = PICTURE.copy()
    rgba.putalpha(Image.fromarray(ALPHA))
    save("rgba.png", encoded(rgba, "PNG"), 0.0, "alpha dropped")
    palette = PICTURE.quantize(40)
    # Pillow makes gray of a palette's colours with another rounding than of pixels.
    save("palette.png", encoded(palette, "PNG"), 0.6, "palette")
    save("palette-4-bit.png", encoded(PICTURE.quantize(14), "PNG", bits=4), 0.6, "palette of 4 bits")
    transparent = encoded(palette, "PNG", transparency=bytes(range(40)))
    save("palette-transparent.png", transparent, 0.6, "palette with alpha, dropped")
    save("color-key.png", encoded(PICTURE, "PNG", transparency=(230, 40, 30)), 0.0, "one transparent colour, dropped")
    packet = b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(6)
    plain = encoded(PICTURE, "PNG")
    save("xmp.png", plain[:33] + chunk(b"iTXt", packet) + plain[33:], 0.0, "orientation by XMP in a PNG")
    save("exif.png", encoded(PICTURE, "PNG", exif=orientation(6)), 0.0, "EXIF orientation in a PNG")
    for bits in [2, 4]:
        levels = PIXELS[:, :, 0] >> (8 - bits)
        per_byte = 8 // bits
        padded = np.pad(levels, ((0, 0), (0, -WIDTH % per_byte))).reshape(HEIGHT, -1, per_byte)
        packed = sum(padded[:, :, i] << (bits * (per_byte - 1 - i)) for i in range(per_byte)).astype(np.uint8)
        save(f"{bits}-bit.png", png(WIDTH, HEIGHT, bits, 0, filtered(packed)), 0.0, f"{bits} bits, gray")

    # The low byte is not that of the high one, so that it shows when it is used.
    low = np.flip(PIXELS, axis=1)
    deep = (PIXELS.astype(np.uint16) << 8 | low).astype(">u2")
    save("rgb16.png", png(WIDTH, HEIGHT, 16, 2, filtered(deep)), 0.0, "16 bits, RGB: the high byte", PIXELS)
    gray = np.repeat(PIXELS[:, :, :1], 3, axis=2)
    save("gray16.png", png(WIDTH, HEIGHT, 16, 0, filtered(deep[:, :, 0])), 0.0, "16 bits, gray: the high byte", gray)
    rgba16 = np.dstack([deep, ALPHA.astype(np.uint16) << 8]).astype(">u2")
    save("rgba16.png", png(WIDTH, HEIGHT, 16, 6, filtered(rgba16)), 0.0, "16 bits with alpha, dropped", PIXELS)
    save("interlaced.png", png(WIDTH, HEIGHT, 8, 2, adam7(PIXELS), interlace=1), 0.0, "Adam7")
    save("xmp.webp", encoded(PICTURE, "WEBP", lossless=True, xmp=xmp(8)), 0.0, "orientation by XMP in a WebP")
    frames = [PICTURE, PICTURE.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    save("animated.png", encoded(frames[0], "PNG", save_all=True, append_images=frames[1:]), 0.0, "first frame")

    bad("cut.png", rgb[: len(rgb) // 2], "PNG cut short", "PNG")
    damaged = bytearray(rgb)
    damaged[rgb.index(b"IDAT") + 20] ^= 0x40
    bad("crc.png", bytes(damaged), "one bit of the pixels flipped", "PNG")
    bad("bomb.png", png(60000, 60000, 8, 2, b"\0" * 100), "claims 60000 x 60000", "60000 x 60000")
    bad("no-pixels.png", png(0, 5, 8, 2, b""), "no column", "PNG")


def webps():
    rgba = PICTURE.copy()
    rgba.putalpha(Image.fromarray(ALPHA))
    save("lossless.webp", encoded(PICTURE, "WEBP", lossless=True), 0.0, "lossless")
    save("lossy.webp", encoded(PICTURE, "WEBP", quality=90), 0.5, "lossy")
    save("alpha.webp", encoded(rgba, "WEBP", lossless=True, exact=True), 0.0, "alpha dropped")
    save("exif.webp", encoded(PICTURE, "WEBP", lossless=True, exif=orientation(8)), 0.0, "EXIF orientation in a WebP")
    frames = [PICTURE, PICTURE.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    animated = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    save("animated.webp", animated, 0.0, "first frame")
    lossy = encoded(PICTURE, "WEBP", quality=90)
    exif = encoded(PICTURE, "WEBP", lossless=True, exif=orientation(8))
    at = exif.index(b"EXIF", 40) + 4
    huge = exif[:at] + struct.pack("<I", 0xF0000000) + exif[at + 4 :]
    bad("exif-bomb.webp", huge, "claims 4 GB of EXIF", "WebP file can't be decoded: it is cut short")
    bad("cut.webp", lossy[: len(lossy) // 2], "WebP cut short", "WebP")


def gifs():
    palette = PICTURE.quantize(40)
    other = palette.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    save("animated.gif", encoded(palette, "GIF", save_all=True, append_images=[other], duration=50), 0.6, "first frame")
    save("interlaced.gif", encoded(palette, "GIF", interlace=1), 0.6, "interlaced")
    save("transparent.gif", encoded(palette, "GIF", transparency=7, interlace=0), 0.6, "a transparent colour, dropped")
    plain = encoded(palette, "GIF", interlace=0)
    # The canvas is made larger than the frame, which is moved to the right and down.
    image = plain.index(b"\x2c\0\0\0\0" + struct.pack("<HH", WIDTH, HEIGHT))
    moved = plain[:6] + struct.pack("<HH", WIDTH + 9, HEIGHT + 8) + plain[10 : image + 1]
    moved += struct.pack("<HH", 5, 3) + plain[image + 5 :]
    save("small-frame.gif", moved, 0.6, "a frame smaller than the canvas")
    for width, height in [(20, 16), (50, 16), (20, 50), (1, 1)]:
        small = plain[:6] + struct.pack("<HH", width, height) + plain[10:]
        save(f"large-frame-{width}x{height}.gif", small, 0.6, "a frame larger than the canvas")
    beyond = moved[:6] + struct.pack("<HH", 38, 30) + moved[10:]
    save("frame-beyond.gif", beyond, 0.6, "a frame that ends beyond the canvas")
    bad("cut.gif", plain[: len(plain) // 2], "GIF cut short", "GIF")
    huge = plain[:6] + struct.pack("<HH", 60000, 60000) + plain[10:]
    bad("bomb.gif", huge, "claims 60000 x 60000", "60000 x 60000")


def bmps():
    save("24-bit.bmp", encoded(PICTURE, "BMP"), 0.0, "24 bits")
    save("8-bit.bmp", encoded(PICTURE.quantize(40), "BMP"), 0.6, "palette")
    save("1-bit.bmp", encoded(PICTURE.convert("1"), "BMP"), 0.0, "1 bit")
    save("gray.bmp", encoded(PICTURE.convert("L"), "BMP"), 0.0, "gray")
    plain = encoded(PICTURE, "BMP")
    bad("cut.bmp", plain[: len(plain) // 2], "BMP cut short", "BMP")
    bad("bomb.bmp", plain[:18] + struct.pack("<ii", 60000, 60000) + plain[26:], "claims 60000 x 60000", "60000 x 60000")


def tiffs():
    for name in ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"]:
        short = name.removeprefix("tiff_").removeprefix("adobe_")
        save(f"{short}.tif", encoded(PICTURE, "TIFF", compression=name), 0.0, f"compression {short}")
    save("gray.tif", encoded(PICTURE.convert("L"), "TIFF", compression="tiff_lzw"), 0.0, "gray")
    save("1-bit.tif", encoded(PICTURE.convert("1"), "TIFF"), 0.0, "1 bit")
    save("cmyk.tif", encoded(PICTURE.convert("CMYK"), "TIFF", compression="tiff_lzw"), 1.0, "CMYK, not inverted")
    save("exif.tif", encoded(PICTURE, "TIFF", compression="tiff_lzw", exif=orientation(5)), 0.0, "orientation in a TIFF")
    deep = Image.fromarray(PIXELS[:, :, 0].astype(np.uint16) << 8 | 0x7F)
    gray = np.repeat(PIXELS[:, :, :1], 3, axis=2)
    save("gray16.tif", encoded(deep, "TIFF", compression="tiff_lzw"), 0.0, "16 bits, gray: the high byte", gray)
    lzw = encoded(PICTURE, "TIFF", compression="tiff_lzw")
    bad("cut.tif", lzw[: len(lzw) // 2], "TIFF cut short", "TIFF")
    bad("palette.tif", encoded(PICTURE.quantize(40), "TIFF"), "TIFF with a palette, which is not supported", "TIFF")
    raw = bytearray(encoded(PICTURE, "TIFF"))
    # Width, height, and rows in a strip.
    for tag in [256, 257, 278]:
        entries = [struct.pack("<HHI", tag, kind, 1) for kind in [3, 4]]
        at = next(raw.index(entry) for entry in entries if entry in raw)
        raw[at + 2 : at + 12] = struct.pack("<HII", 4, 1, 60000)
    bad("bomb.tif", bytes(raw), "claims 60000 x 60000", "60000 x 60000")


def others():
    bad("empty.jpg", b"", "no bytes", "empty")
    bad("page.jpg", b"<html><body>404 Not Found</body></html>", "an error page saved as an image", "<html>")
    bad("noise.jpg", np.random.default_rng(2).bytes(400), "random bytes", "no JPEG, PNG")


HERE.mkdir(exist_ok=True)
for old in HERE.iterdir():
    old.unlink()
for make in [jpegs, pngs, webps, gifs, bmps, tiffs, others]:
    make()
(HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
