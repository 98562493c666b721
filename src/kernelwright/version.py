"""The version of the package, and so of the judge whose verdicts carry it."""

__version__ = "0.1.0"
