"""Renders plans for the `cuda` contract: kernels, and the plan.py that launches them."""
