"""The summary of a profile, of which the published tables are made."""

from tests.benchmarks.profiling import summary

STACKS = [
    "run (loop.py:1);parse (client.py:9);read (entry.py:4) 6",
    "run (loop.py:1);parse (client.py:12) 3",
    "run (loop.py:2) 1",
]


def test_a_summary_has_the_share_of_each_function_with_and_without_its_calls() -> None:
    assert list(summary("gateway", STACKS)) == [
        "gateway: 10 samples",
        "   60.0 %  with its calls  60.0 %  read, entry.py",
        "   30.0 %  with its calls  90.0 %  parse, client.py",
        "   10.0 %  with its calls 100.0 %  run, loop.py",
    ]
