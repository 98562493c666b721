"""What runs in the sandbox beside a ModelNew: the module is made, given the problem's parameters, and called.

recording.py     one call after the other on tensors without values; launches and steps of torch as a record
interpreting.py  the same module on real values, for `kernelwright check`
construction.py  what the constructor computes, to be done again in every call; parameters of the problem
library.py       operators of torch as steps of the record
inline.py        load_inline: the candidate's own libraries, called on stand-ins or on real values
around.py        what of torch is left out: compilers, dropout, CUDA graphs

Loaded as the package `kw_modelnew`, beside `kw_confined` (contracts/triton/confined), on which it builds.
"""
