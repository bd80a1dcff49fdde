"""Pictures of figures: smaller files that show the same."""

from __future__ import annotations

from gristmill_bench.figures.pictures import smaller

WRITTEN = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg width="648pt" xmlns="http://www.w3.org/2000/svg">
 <g id="figure_1">
  <g id="patch_1" clip-path="url(#p60a5)">
   <defs>
    <path id="m1" d="M 0 0
L -0.004 12.345678
z
"/>
   </defs>
   <text style="font: 10px 'sans'">ratio 1.23456 of  a</text>
  </g>
 </g>
</svg>
"""


def test_a_picture_keeps_its_text_and_its_shapes_and_loses_names_of_groups() -> None:
    assert smaller(WRITTEN) == (
        """<svg width="648pt" xmlns="http://www.w3.org/2000/svg">
<g clip-path="url(#p60a5)">
<defs>
<path id="m1" d="M 0 0 L -0 12.35 z"/>
</defs>
<text style="font: 10px 'sans'">ratio 1.23456 of  a</text>
</g>
</svg>
"""
    )
