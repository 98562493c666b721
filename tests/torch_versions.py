"""What tests need of the torch that is installed; on machines with a GPU it is the system's."""

from __future__ import annotations

import pytest

from kernelwright.tasks.formats import saturates

NEEDS_E4M3 = pytest.mark.skipif(
    not saturates(), reason="this torch makes NaN of what float8_e4m3fn cannot hold; 2.13 does not"
)
