"""The proposer `templates`: recognises patterns in a reference and writes candidates from parameterised templates."""

from kernelwright.proposers.templates.graph import CannotExpressError
from kernelwright.proposers.templates.proposer import TemplateProposer, make

__all__ = ["CannotExpressError", "TemplateProposer", "make"]
