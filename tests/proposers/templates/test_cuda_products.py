"""How the plan of a CUDA product depends on its sizes: the way to multiply, its launches, and the shares of blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.target import HOPPER
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.genes import Value
from kernelwright.tasks.resolve import resolve


def plan(task: str, **genes: Value) -> Plan:
    templates = make(resolve(task, "cuda"), "cuda")
    pool = templates.renderer.gene_pool(templates.plan)
    assert set(genes) <= {gene.name for gene in pool.genes}
    source = templates.renderer.render(templates.plan, pool.legal(pool.default() | genes), templates.signatures)
    plans = evaluate_plans(split(source).plan, templates.signatures[:1], HOPPER)
    assert isinstance(plans, tuple), plans
    return plans[0]


def definitions(task: str, **genes: Value) -> dict[str, str]:
    return dict(plan(task, **genes).definitions)


def memory(made: Plan) -> set[str]:
    return {block.name for block in made.scratch}


def linear(rows: int, features: int, units: int) -> str:
    return f"linear_relu@rows={rows},features={features},units={units}"


@pytest.mark.parametrize(
    ("sizes", "small"),
    [((64, 128, 10), "1"), ((64, 1600, 128), "1"), ((4, 4096, 4096), "1"), ((64, 4096, 4096), "0")],
)
def test_the_way_to_multiply_follows_from_the_sizes(sizes: tuple[int, int, int], small: str) -> None:
    assert definitions(linear(*sizes))["SMALL_0"] == small


def test_a_small_product_has_a_warp_for_nearly_every_multiprocessor() -> None:
    for sizes in ((64, 128, 10), (64, 1600, 128), (7, 9, 500)):
        (launch,) = plan(linear(*sizes)).launches
        assert launch.grid[0] * launch.block[0] // 32 >= 0.9 * HOPPER.multiprocessors


def test_a_given_way_is_taken_at_any_size() -> None:
    tiles = definitions(linear(64, 128, 10), method="tf32x3", block="128x64")
    assert (tiles["HIGH_0"], tiles["WIDE_0"]) == ("128", "64") and "SMALL_0" not in tiles


def test_the_steps_of_uneven_tiles_are_dealt_out_to_all_multiprocessors() -> None:
    """224 tiles would be two rounds, the second of which leaves a third of the multiprocessors idle."""
    given = linear(256, 4096, 14336)
    assert plan(given, method="wgmma").launches[0].grid[0] == HOPPER.multiprocessors
    assert plan(given, method="wgmma", split=0).launches[0].grid[0] == 224


def test_even_tiles_have_a_block_each() -> None:
    assert plan(linear(4096, 4096, 4096), method="wgmma").launches[0].grid[0] == 1024


def test_a_tile_is_not_shared_by_more_blocks_than_one_can_add_up() -> None:
    launch = plan(linear(128, 65536, 128), method="wgmma").launches[0]
    assert launch.grid[0] == 4 * 32


@pytest.mark.parametrize("task", ["linear", "linear_relu"])
def test_a_small_gradient_is_one_launch(task: str) -> None:
    made = plan(f"{task}:backward@rows=64,features=128,units=10")
    assert len(made.launches) == 1 and not made.scratch


def test_a_large_gradient_makes_its_operand_once() -> None:
    assert "buffer0" in memory(plan("linear_relu:backward@rows=1024,features=1024,units=1024"))


def test_a_deep_gradient_is_not_left_to_one_team_of_warps() -> None:
    given = "linear:backward@rows=100000,features=8,units=8"
    assert definitions(given)["SMALL"] == "0" and definitions(given)["SMALL_1"] == "0"
    assert max(launch.grid[0] for launch in plan(given).launches) >= 32


def test_warpgroups_multiply_on_hopper_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = definitions(linear(256, 4096, 14336), method="wgmma")
    assert made["GROUPS_0"] == "1" and (made["HIGH_0"], made["WIDE_0"], made["THREADS_product_0"]) == (
        "128",
        "128",
        "256",
    )
    monkeypatch.setattr(f"{__name__}.HOPPER", replace(HOPPER, architecture="sm_80"))
    older = definitions(linear(256, 4096, 14336), method="wgmma")
    assert older["GROUPS_0"] == "0" and (older["OWN_HIGH_0"], older["OWN_WIDE_0"]) == ("64", "32")


@pytest.mark.parametrize(("columns", "wide"), [(128, 128), (67, 96), (20, 32)])
def test_a_tile_of_warpgroups_leaves_few_columns_empty(columns: int, wide: int) -> None:
    assert definitions(linear(16383, 139, columns))["WIDE_0"] == str(wide)


def test_a_tile_with_an_odd_number_of_columns_has_room_to_end_in() -> None:
    (odd,), (even,) = (plan(linear(16383, 139, columns)).launches for columns in (127, 128))
    assert odd.shared == 4 * 128 * (128 + 4) and even.shared == 1024 + 16 * 32 * 128


@pytest.mark.parametrize(
    ("sizes", "produced"),
    [((4096, 4096, 4096), "1"), ((1023, 1023, 1023), "1"), ((16384, 128, 128), "0"), ((64, 8192, 8192), "0")],
)
def test_producers_feed_products_that_are_large_in_every_direction(sizes: tuple[int, int, int], produced: str) -> None:
    assert definitions(linear(*sizes))["PRODUCED_0"] == produced


def test_producers_are_for_hopper_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = linear(4096, 4096, 4096)
    assert plan(given, method="producers").launches[0].block[0] == 384
    monkeypatch.setattr(f"{__name__}.HOPPER", replace(HOPPER, architecture="sm_80"))
    for method in ("size", "producers"):
        older = definitions(given, method=method, block="256x128")
        assert older["PRODUCED_0"] == "0" and older["GROUPS_0"] == "0" and older["HIGH_0"] == "128"


@pytest.mark.parametrize("block", ["128x64", "128x128", "256x64", "256x128"])
def test_producers_have_as_many_stages_as_there_is_room_for(block: str) -> None:
    (launch,) = plan(linear(4096, 4096, 4096), method="producers", block=block, stages=4).launches
    assert launch.shared <= HOPPER.shared_per_block


def test_a_gated_feed_forward_is_two_launches_where_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "llama_ffw@batch=2,tokens=128,features=4096,inner=14336"
    both, down = plan(given).launches
    assert both.grid[0] == down.grid[0] == HOPPER.multiprocessors
    assert len(plan(given, join=False).launches) == 3
    assert len(plan("llama_ffw@batch=1,tokens=128,features=512,inner=512").launches) == 3
    monkeypatch.setattr(f"{__name__}.HOPPER", replace(HOPPER, architecture="sm_80"))
    assert len(plan(given).launches) == 3


@pytest.mark.parametrize(
    ("sizes", "pads", "produced"),
    [
        ((4095, 4097, 4095), ("1", "1"), "1"),
        ((4095, 4096, 4095), ("0", "0"), "1"),  # rows of operands are as long as the depth
        ((16384, 1025, 200), ("0", "1"), "0"),  # the left operand is not used often enough
        ((600, 1026, 1026), ("1", "1"), "1"),
    ],
)
def test_odd_rows_are_copied_where_they_are_read_often(
    sizes: tuple[int, int, int], pads: tuple[str, str], produced: str
) -> None:
    found = definitions(linear(*sizes))
    assert found["PRODUCED_0"] == produced
    assert (found["PADS_LEFT_0"], found["PADS_RIGHT_0"]) == (pads if produced == "1" else ("0", "0"))
    asked = definitions(linear(*sizes), pad=0)
    assert (asked["PADS_LEFT_0"], asked["PADS_RIGHT_0"]) == ("0", "0")
    assert asked["PRODUCED_0"] == str(int(pads == ("0", "0"))), "without a copy others bring odd rows"


def test_a_copy_is_a_launch_of_its_own_with_room_for_whole_tiles() -> None:
    made = plan(linear(4095, 4097, 4095))
    assert [launch.kernel for launch in made.launches] == ["launch0", "launch1"]
    sizes = {block.name: block.bytes for block in made.scratch}
    assert sizes["padded_left_0"] == 4 * 4096 * 4128 == sizes["padded_right_0"]
    found = dict(made.definitions)
    assert (found["WHOLE_LEFT_0"], found["WHOLE_RIGHT_0"]) == ("1", "1")


def test_a_tile_is_one_that_leaves_little_to_put_together() -> None:
    """As measured: benchmarks/results/product_variants.json."""
    chosen = {
        (4096, 4096, 4096): ("256", "128", "2"),
        (256, 4096, 14336): ("256", "128", "2"),
        (1024, 1024, 1024): ("128", "64", "4"),
    }
    for sizes, tile in chosen.items():
        found = definitions(linear(*sizes))
        assert (found["HIGH_0"], found["WIDE_0"], found["STAGES_0"]) == tile
