"""Prints letters of a font for pictures: python3 outlines.py Roboto-Regular.ttf > Roboto-Regular.txt

Needs fontTools. A line has a letter, its width and its outline, apart by tabs. The outline is a path of SVG whose steps are
relative, from where the letter begins on its line of text; all is in units of 1/2048 em, y downwards.
"""

import sys

from fontTools.pens.basePen import BasePen
from fontTools.ttLib import TTFont

LETTERS = [
    *range(0x20, 0x7F),
    *range(0xA0, 0x180),
    *range(0x391, 0x3A2),
    *range(0x3A3, 0x3CA),
    *range(0x400, 0x460),
    *map(ord, "‐‑‒–—―‘’‚‛“”„†‡•…‰′″‹›⁄€™∂∆∑−√∞≈≠≤≥\ufffd"),
]


class Outline(BasePen):
    def __init__(self, glyphs):
        super().__init__(glyphs)
        self.path, self.at, self.start = "", (0, 0), (0, 0)

    def step(self, command, *points):
        points = [(round(x), -round(y)) for x, y in points]
        numbers = " ".join(f"{x - self.at[0]} {y - self.at[1]}" for x, y in points)
        self.path += command + numbers.replace(" -", "-")
        self.at = points[-1]

    def _moveTo(self, point):
        self.step("m", point)
        self.start = self.at

    def _lineTo(self, point):
        self.step("l", point)

    def _qCurveToOne(self, middle, end):
        self.step("q", middle, end)

    def _closePath(self):
        self.path += "z"
        self.at = self.start


font = TTFont(sys.argv[1])
glyphs, names = font.getGlyphSet(), font.getBestCmap()
assert font["head"].unitsPerEm == 2048
for letter in LETTERS:
    outline = Outline(glyphs)
    glyph = glyphs[names[letter]]
    glyph.draw(outline)
    print(*filter(None, [chr(letter), str(glyph.width), outline.path]), sep="\t")
