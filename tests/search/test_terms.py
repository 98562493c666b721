"""Who is profiled in a search: candidates of proposers that read it, whenever judged, as any verdict may be shown."""

from __future__ import annotations

import math

from kernelwright.devices.names import Device
from kernelwright.judge.server.protocol import Wanted
from kernelwright.search import proposing
from kernelwright.search.judging import LEAST_SECONDS, Terms


def test_those_who_can_read_a_profile_are_shown_one() -> None:
    assert {name for name, kind in proposing.PROPOSERS.items() if kind.profiled} == {"files", "llm"}


def test_both_kinds_of_judging_ask_for_it_and_a_warm_oracle_is_told() -> None:
    plain = Terms().using(0, ("eager",), Device("cuda"))
    asked = Terms().using(0, ("eager",), Device("cuda"), profile=True)
    assert not plain.quick.profile and not plain.final.profile
    for settings in (asked.quick, asked.final):
        assert Wanted.of(settings).settings().profile


def test_a_final_fits_into_the_time_that_is_left_unless_it_could_tell_nothing() -> None:
    whole = Terms().final.effort
    assert Terms().within(math.inf, 4).final.effort == whole
    assert Terms().within(1000.0, 4).final.effort == whole
    assert Terms().within(100.0, 4).final.effort.seconds == 25.0
    assert Terms().within(1.0, 4).final.effort.seconds == Terms().within(-5.0, 4).final.effort.seconds == LEAST_SECONDS
    assert Terms().within(60.0, 4).quick == Terms().quick
