"""Invalid settings of an adapter's requests."""

from __future__ import annotations


def test_answers_from_a_file_have_no_limits_to_keep(suite, run, pytester):
    path = pytester.path / "crucible.toml"
    path.write_text(path.read_text().replace("[adapters.v2]\n", "[adapters.v2]\nlimit = { concurrency = 2 }\n"))

    result = run("--crucible-adapter=v2")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*adapter 'v2' has 'limit', but backend 'recorded' reads its replies from a file*"])
