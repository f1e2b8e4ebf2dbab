"""Text drawn with Pillow's own font, as lines and as pages."""

from __future__ import annotations

from random import Random

from PIL import Image, ImageDraw, ImageFont

from published.fetch import PACKAGES

# Read by PP-OCR: words, numbers, mixed case, punctuation.
LINES = (
    "Ridgeline 2026", "bit for bit", "cycle for cycle", "Hello World", "roofline model",
    "INVOICE 10482", "Total: 318.40", "Berlin 10115", "weight stationary", "Order No. 7731",
    "quick brown fox", "lazy dog", "convolution", "depthwise 3x3", "44 GB/s",
    "Page 12 of 96", "open daily", "Thank you", "MEMORY BOUND", "latency 4.2 ms",
    "Grand Hotel", "Platform 9", "batch size 8", "no smoking", "EXIT",
    "Tuesday 14:30", "fragile", "3 for 2 offer", "accumulator", "www.example.org",
)  # fmt: skip
CALIBRATION_LINES = (
    "the north wind", "and the sun", "Paris 75011", "Receipt 5526", "Sum: 92.75",
    "matrix product", "ARRIVALS", "Gate B17", "Monday 09:15", "stride 2 pad 1",
    "please knock", "vector unit", "HALF PRICE", "room 204", "info@example.com",
    "left over right", "kilowatt hours", "Best before 07/28", "Zebra crossing", "question?",
)  # fmt: skip

_TEXT = (
    "lorem amber river stone cloud paper silver engine garden winter signal bridge copper orange "
    "window market harbor planet rocket marble velvet thunder whisper lantern"
)


def drawn_lines(count: int, seed: int) -> tuple[str, ...]:
    """Lines of other words and numbers than LINES, drawn by a seed."""
    random, made = Random(seed), list[str]()
    for _ in range(count):
        word, other = random.choice(_TEXT.split()), random.choice(_TEXT.split())
        number, part = random.randrange(1, 9999), random.randrange(10, 99)
        forms = (
            word, word.upper(), f"{word.title()} {number}", f"{word} {other}",
            f"{number}.{part} {word[:3]}",
        )  # fmt: skip
        made.append(random.choice(forms))
    return tuple(made)


def line(text: str, size: int = 32) -> Image.Image:
    """One line, black on white, with a margin."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = (round(v) for v in font.getbbox(text))
    picture = Image.new("RGB", (right - left + size, bottom - top + size // 2), "white")
    ImageDraw.Draw(picture).text((size // 2 - left, size // 4 - top), text, "black", font)
    return picture


def page(seed: int, size: int = 22) -> Image.Image:
    """A page of lines of a text that lies beside this project, from its line `seed` on."""
    text = PACKAGES.read_text(encoding="utf-8").replace('"', "").splitlines()
    words = " ".join(text[seed * 7 % len(text) :] + text).split()[:260]
    font = ImageFont.load_default(size)
    picture = Image.new("RGB", (640, 800), "white")
    draw, row = ImageDraw.Draw(picture), ""
    top = 40
    for word in words:
        if draw.textlength(f"{row} {word}", font) > 560:
            draw.text((40, top), row, "black", font)
            row, top = word, top + int(size * 1.5)
            if top > 740:
                break
        else:
            row = f"{row} {word}".strip()
    return picture
