"""How candidates of a run are judged: what is profiled, what is certified, and how long a final may take."""

from __future__ import annotations

import math

from kernelwright.devices.names import Device
from kernelwright.judge.server.protocol import RequestedSettings
from kernelwright.search import proposing
from kernelwright.search.judging import LEAST_SECONDS, TRIALS_PART, JudgeSettings


def test_those_who_can_read_a_profile_are_shown_one() -> None:
    assert {name for name, kind in proposing.PROPOSERS.items() if kind.profiled} == {"files", "llm"}


def test_both_kinds_of_judging_ask_for_it_and_the_server_is_told() -> None:
    plain = JudgeSettings().using(0, ("eager",), Device("cuda"))
    asked = JudgeSettings().using(0, ("eager",), Device("cuda"), profile=True)
    assert not plain.quick.profile and not plain.final.profile
    for settings in (asked.quick, asked.final):
        assert RequestedSettings.of(settings).settings().profile


def test_finals_are_certified_and_quick_judgings_are_not() -> None:
    usual = JudgeSettings()
    certified = [RequestedSettings.of(settings).settings().certify for settings in (usual.quick, usual.final)]
    assert certified == [False, True]


def test_a_final_fits_into_the_time_that_is_left() -> None:
    usual = JudgeSettings()
    for plenty in (math.inf, 1000.0):
        assert usual.within(plenty, 4).final.effort == usual.final.effort and usual.within(plenty, 4).deadline == 600
    assert usual.within(100.0, 4).final.effort.seconds == TRIALS_PART * 25.0 and usual.within(100.0, 4).deadline == 100
    for little in (1.0, -5.0):
        assert usual.within(little, 4).final.effort.seconds == usual.within(little, 4).deadline == LEAST_SECONDS
    assert usual.within(60.0, 4).quick == usual.until(60.0).quick == usual.quick
    assert usual.until(60.0).deadline == 60 and usual.until(math.inf).deadline == 600
