"""Benchmarks over suites: who is right, and how fast, on how many tasks; kept as raw rows, shown as a leaderboard."""
