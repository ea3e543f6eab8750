"""The table of what a phase costs, as a command."""

import math


def test_all_sides_give_a_figure_for_each_number_of_rows(json_of):
    found = json_of("phases.py", "--threads", "2", "--rounds", "2", "--phases", "40")
    for side in ("appy", "appy, sums", "gcc, parallel for", "gcc, one region"):
        assert [len(figures) for figures in found[side]] == [3, 3]
        assert all(math.isfinite(figure) for figures in found[side] for figure in figures)
