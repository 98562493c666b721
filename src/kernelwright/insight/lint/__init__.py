"""Rejects a task that can be cheated or means little. `run.lint` applies the rules; docs/tasks.md lists them."""
