"""The only authority on right and fast. See docs/architecture.md for its processes and docs/trust.md for its claims."""
