"""The benchmarks of what tiles gain, as commands."""


def test_tiles_in_time(json_of):
    some = ["--preset", "tiny", "--only", "heat_3d,fdtd_2d"]
    rows = json_of("time_tiles.py", "--rounds", "2", "--apart", "1", *some)["rows"]
    assert list(rows) == ["heat_3d", "fdtd_2d"]
    for row in rows.values():
        assert row["with"] > 0 and row["without"] > 0 and row["gain"] > 0
        assert len(row["seconds"]) == 3 and min(row["seconds"]) > 0
        assert row["at_most"] >= 1 and row["beyond"]["gain"] > 0
        assert row["of_minima"] > 0 and 0 <= row["shared_core"] <= 2


def test_strips_of_planes(json_of):
    shapes = ["--only", "seven_points,long_lines", "--shapes", "6x5x7,7x30x8"]
    rows = json_of("planes.py", "--rounds", "2", *shapes)["rows"]
    assert len(rows) == 4 and {row["stencil"] for row in rows} == {"seven_points", "long_lines"}
    for row in rows:
        assert row["with"] > 0 and row["without"] > 0 and row["gain"] > 0
    assert rows[0]["shape"] == [6, 5, 7] and rows[0]["plane"] == 280
