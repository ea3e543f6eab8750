"""The benchmark of what appy costs besides the loops, as a command."""


def test_first_calls(json_of):
    rows = json_of("overheads.py", "--only", "first", "--rounds", "1")["rows"]
    assert len(rows) == 6 and all(0.1 < row["value"] < 10_000 and row["unit"] == "ms" for row in rows.values()), rows
