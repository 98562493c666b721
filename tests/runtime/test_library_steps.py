"""Programs without torch's steps, and without the candidate's kernels: what is left of them."""

from __future__ import annotations

from tests.gpu.library import COUNT, FIRST, OUT, SECOND, X, built, launch, program, torchs

from kernelwright.contracts.program import Copy, LibraryStep, Memset
from kernelwright.runtime.library_steps import KEPT, kept_bytes, with_kept_results, without_own_kernels

SIZE = 4 * COUNT
APART = -(-SIZE // 256) * 256  # from one kept result to the next


def test_copies_of_kept_results_take_the_place_of_torchs_steps_in_order() -> None:
    of = program(torchs("neg", X, FIRST), launch("twice", FIRST, SECOND), torchs("exp", SECOND, OUT))
    found = with_kept_results(of)
    kept = len(of.blocks)
    assert found.blocks[:kept] == of.blocks and found.blocks[kept].name == KEPT
    assert found.blocks[kept].shared and not found.blocks[kept].writable
    assert found.blocks[kept].bytes == kept_bytes(of) >= APART + SIZE
    assert found.blocks[kept].base >= max(block.base + block.bytes for block in of.blocks)
    assert found.steps == (Copy(FIRST, 0, kept, 0, SIZE), of.steps[1], Copy(OUT, 0, kept, APART, SIZE))
    assert found.library == ()


def test_what_a_step_writes_in_place_is_kept_too() -> None:
    in_place = torchs("neg_", FIRST, FIRST)
    step = LibraryStep(in_place.operator, in_place.call, in_place.tensors, (0,), ())
    assert with_kept_results(program(step)).steps == (Copy(FIRST, 0, 4, 0, SIZE),)


def test_without_the_candidates_kernels_torch_may_give_the_output_itself_or_what_a_kernel_copies() -> None:
    neg, exp = torchs("neg", X, FIRST), torchs("exp", FIRST, SECOND)
    of = built(neg, exp, launch("twice", SECOND, OUT))
    assert [one.steps for one in without_own_kernels(of.program, [one.own for one in of.kernels])] == [
        (neg, exp),
        (neg, exp, Copy(OUT, 0, SECOND, 0, SIZE)),
        (neg, Copy(OUT, 0, FIRST, 0, SIZE)),
    ]


def test_kernels_that_stand_in_for_operators_of_torch_stay() -> None:
    of = built(
        torchs("neg", X, FIRST),
        launch("kw_elementwise", FIRST, SECOND),
        launch("mine", SECOND, OUT),
        ours=("kw_elementwise",),
    )
    plain, *copying = without_own_kernels(of.program, [one.own for one in of.kernels])
    assert [step.function for step in plain.launches] == ["kw_elementwise"]
    assert (*plain.steps, Copy(OUT, 0, SECOND, 0, SIZE)) in [one.steps for one in copying]


def test_memsets_and_results_of_another_size_are_not_offered() -> None:
    of = built(Memset(FIRST, 0, SIZE), Copy(SECOND, 0, X, 0, 8), launch("twice", X, OUT))
    assert len(list(without_own_kernels(of.program, [one.own for one in of.kernels]))) == 1
