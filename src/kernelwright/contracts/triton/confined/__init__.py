"""What runs in the sandbox beside a Triton module: our stand-ins for tensors, device and driver.

recording.py   one call after the other on tensors without values; its launches as a record and PTX
interpreting.py  the same module on real values, with Triton's own interpreter, for `kernelwright check`
modules.py     executes the module, finds its function
driver.py      Triton's driver: compiles to PTX, and hands launches to the record
tensors.py     memory without values: addresses, allocations, the operators of torch that host code may use
arithmetic.py  those operators that compute, as kernels of our own
cuda.py        what host code may ask torch.cuda

Loaded as the package `kw_confined`, so that nothing of Kernelwright's is imported beside a stranger's code.
"""
