"""What a candidate looks like, how it is built, and how an author is told. One folder per contract; see registry.py.

The GPU launcher imports `contracts.program`, so nothing here may load a contract, torch, numpy or pydantic.
"""

from kernelwright.contracts.candidate import Candidate, CandidateError

__all__ = ["Candidate", "CandidateError"]
