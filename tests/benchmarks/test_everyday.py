"""The benchmark of what programs do beside large kernels, as a command."""


def test_array_statements(json_of):
    rows = json_of("everyday.py", "--only", "scaled_columns,turned", "--rounds", "2")["rows"]
    assert sorted(rows) == ["scaled_columns", "turned"]
    assert all(row["against"] == "numpy" and row["ratio"] > 0 for row in rows.values()), rows
