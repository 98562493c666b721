"""Runs in the launcher, the process that holds the kernels of a candidate on a GPU: no torch, numpy or pydantic, but in
`with_torch` and `torch_steps`."""
