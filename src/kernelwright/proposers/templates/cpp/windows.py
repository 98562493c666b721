"""Renders contractions that slide: convolutions of any rank, stride, padding, dilation and groups, transposed too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.contracts.cpp import TYPES
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.graph import Extent
from kernelwright.proposers.templates.patterns.contractions import ContractionForm, ContractionStep, Subscript
from kernelwright.proposers.templates.sizes import Sizes

FEW = 8  # filters of a group that would leave most of a vector empty


@dataclass(frozen=True)
class Slide:
    """One dimension: result o reads at (o × step + t × gap + constant) / divisor."""

    out: Extent
    size: Extent
    kernel: Extent
    step: int
    gap: int
    constant: int
    divisor: int


@dataclass(frozen=True)
class WindowForm:
    image: int  # which operand
    batch: Extent
    groups: Extent
    channels: Extent  # of a group, as the filters
    filters: Extent
    slides: tuple[Slide, ...]
    filter_first: bool  # the weight's first dimension counts filters, not channels


ONE = Extent(1, 1)


def parsed(form: ContractionForm) -> WindowForm | None:
    """Results: batch, group, filter, places; the image: batch, channel, places; the weight: two dimensions, window."""
    for image in (0, 1):
        found = _parsed(form, image)
        if found is not None:
            return found
    return None


def _parsed(form: ContractionForm, image: int) -> WindowForm | None:
    slid, weight = form.operands[image], form.operands[1 - image]
    rank = len(slid.subscripts) - 2
    if weight.guarded or len(weight.subscripts) != rank + 2 or not 1 <= rank <= 3:
        return None
    kept = form.kept
    if len(kept) not in (rank + 2, rank + 3) or any(s.constant for s in (*slid.subscripts[:2], *weight.subscripts)):
        return None
    grouped = len(kept) == rank + 3
    batch, filter_, places = kept[0], kept[-rank - 1], kept[-rank:]
    group = kept[1] if grouped else None
    depth = form.of("depth")
    if len(depth) != rank + 1 or any(s.guarded for s in slid.subscripts[:2]):
        return None
    channel, window = depth[0], depth[1:]
    slides = [_slide(form, *one) for one in zip(slid.subscripts[2:], places, window, strict=True)]
    share = form.axes[channel].extent
    checks = [
        _is(form, slid.subscripts[0], {batch: ONE}),
        _is(form, slid.subscripts[1], {channel: ONE} | ({group: share} if group is not None else {})),
        all(_is(form, s, {axis: ONE}) for s, axis in zip(weight.subscripts[2:], window, strict=True)),
    ]
    each = form.axes[filter_].extent
    ways = []
    for first in (True, False):
        lead, other, size = (filter_, channel, each) if first else (channel, filter_, share)
        whole = {lead: ONE} | ({group: size} if group is not None else {})
        ways.append(_is(form, weight.subscripts[0], whole) and _is(form, weight.subscripts[1], {other: ONE}))
    known = [slide for slide in slides if slide is not None]
    if not all(checks) or not any(ways) or len(known) != rank:
        return None
    groups = form.axes[group].extent if group is not None else ONE
    batches = form.axes[batch].extent
    return WindowForm(image, batches, groups, share, each, tuple(known), ways[0])


@dataclass(frozen=True)
class MeetingForm:
    """The gradient of a weight: every channel of one operand with every one of the other, which slides."""

    still: int  # which operand
    batch: Extent
    groups: Extent
    own: Extent
    other: Extent
    slides: tuple[Slide, ...]  # from places of `still` to places of the other


def met(form: ContractionForm) -> MeetingForm | None:
    """Results: group, channel of `still`, channel of the other, window; both operands: batch, channel, places."""
    for still in (0, 1):
        found = _met(form, still)
        if found is not None:
            return found
    return None


def _met(form: ContractionForm, still: int) -> MeetingForm | None:
    fixed, moved = form.operands[still], form.operands[1 - still]
    rank, kept, depth = len(fixed.subscripts) - 2, form.kept, form.of("depth")
    if fixed.guarded or len(moved.subscripts) != rank + 2 or not 1 <= rank <= 3 or len(depth) != rank + 1:
        return None
    if len(kept) not in (rank + 2, rank + 3) or any(s.guarded for s in moved.subscripts[:2]):
        return None
    if any(s.constant for s in (*fixed.subscripts, *moved.subscripts[:2])):
        return None
    group = kept[0] if len(kept) == rank + 3 else None
    own, other, window = kept[-rank - 2], kept[-rank - 1], kept[-rank:]
    batch, places = depth[0], depth[1:]

    def channels(axis: int) -> dict[int, Extent]:
        return {axis: ONE} | ({group: form.axes[axis].extent} if group is not None else {})

    checks = (
        *(_is(form, operand.subscripts[0], {batch: ONE}) for operand in (fixed, moved)),
        _is(form, fixed.subscripts[1], channels(own)),
        _is(form, moved.subscripts[1], channels(other)),
        *(_is(form, s, {axis: ONE}) for s, axis in zip(fixed.subscripts[2:], places, strict=True)),
    )
    slides = [_slide(form, *one) for one in zip(moved.subscripts[2:], places, window, strict=True)]
    known = tuple(slide for slide in slides if slide is not None and slide.divisor == 1 and slide.gap >= 0)
    if not all(checks) or len(known) != rank:
        return None
    groups = form.axes[group].extent if group is not None else ONE
    batches, *channels_ = (form.axes[axis].extent for axis in (batch, own, other))
    return MeetingForm(still, batches, groups, channels_[0], channels_[1], known)


def _is(form: ContractionForm, subscript: Subscript, terms: dict[int, Extent]) -> bool:
    """Axes of size one do not occur."""
    wanted = {axis: c for axis, c in terms.items() if not form.axes[axis].extent.single}
    return subscript.divisor == 1 and dict(subscript.terms) == wanted


def _slide(form: ContractionForm, subscript: Subscript, place: int, tap: int) -> Slide | None:
    out, kernel = form.axes[place].extent, form.axes[tap].extent
    terms = dict(subscript.terms)
    if set(terms) - {place, tap}:
        return None
    step = terms.get(place, ONE).literal
    gap = terms.get(tap, Extent(0, 0)).literal
    if step is None or gap is None or step < 1:
        return None
    return Slide(out, subscript.size, kernel, step, gap, subscript.constant, subscript.divisor)


def render(step: ContractionStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    names = (step.first, step.second)
    meeting = met(step.form)
    form = parsed(step.form)
    if form is None:
        assert meeting is not None
        still, moved = pointers[names[meeting.still]], pointers[names[1 - meeting.still]]
        return meeting_call(meeting, still, moved, pointers[step.output], genes, sizes)
    image, weight = pointers[names[form.image]], pointers[names[1 - form.image]]
    result = f"static_cast<{TYPES[step.form.dtype]}*>({pointers[step.output]})"
    return call(form, image, weight, result, genes, sizes, "last" if step.epilogue else "NoRows{}")


def call(form: WindowForm, image: str, weight: str, result: str, genes: Genes, sizes: Sizes, last: str) -> str:
    """`last` follows every finished stretch of a row of the result."""
    few = form.filters.literal is not None and form.filters.literal < FEW
    function = "slide_places" if few else "slide_filters"
    taps = " * ".join(f"({sizes.expression(slide.kernel)})" for slide in form.slides)
    slides = _three(form.slides, sizes)
    counts = ", ".join(sizes.expression(e) for e in (form.batch, form.groups, form.channels, form.filters))
    if form.filter_first:
        filter_, channel = f"({sizes.expression(form.channels)}) * {taps}", taps
    else:
        filter_, channel = taps, f"({sizes.expression(form.filters)}) * {taps}"
    group = f"({sizes.expression(form.filters)}) * ({sizes.expression(form.channels)}) * {taps}"
    shape = f"{genes['tile_rows']}, {genes['tile_vectors']}, {form.slides[-1].step}"
    limits = f"{max(int(genes['block_depth']), 256)}, {genes['grain']}"
    return (
        f"const Windows windows{{{counts}, {slides}, {group}, {filter_}, {channel}}};\n"
        f"{function}<{shape}>(windows, {image}, {weight}, {result}, {limits}, {last});\n"
    )


def meeting_call(form: MeetingForm, still: str, moved: str, result: str, genes: Genes, sizes: Sizes) -> str:
    counts = ", ".join(sizes.expression(e) for e in (form.batch, form.groups, form.own, form.other))
    shape = f"{genes['tile_rows']}, {genes['tile_vectors']}"
    blocks = f"{genes['block_rows']}, {genes['block_cols']}, {genes['block_depth']}, {genes['grain']}"
    return (
        f"const Meeting meeting{{{counts}, {_three(form.slides, sizes)}}};\n"
        f"meet_windows<{shape}>(meeting, {still}, {moved}, {result}, {blocks});\n"
    )


def _three(slides: tuple[Slide, ...], sizes: Sizes) -> str:
    flat = Slide(ONE, ONE, ONE, 1, 0, 0, 1)
    return ", ".join(_sliding(slide, sizes) for slide in (*(flat,) * (3 - len(slides)), *slides))


def _sliding(slide: Slide, sizes: Sizes) -> str:
    extents = ", ".join(sizes.expression(one) for one in (slide.out, slide.size, slide.kernel))
    return f"Sliding{{{extents}, {slide.step}, {slide.gap}, {slide.constant}, {slide.divisor}}}"
