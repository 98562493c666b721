"""Row programs whose operands are windows: slices, chunks, parts of a join, masks that some dimensions share.

Where a join or a guard changes what a row is made of, the columns are cut there, and each piece is stored for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.proposers.templates.graph import CannotExpressError, Extent, Graph, Reduce, Shape, total
from kernelwright.proposers.templates.nests.index_maps import Contraction, plus, size_of
from kernelwright.proposers.templates.patterns.affine import NotAffineError
from kernelwright.proposers.templates.patterns.row_windows import ColumnPiece, CutError, WindowReading
from kernelwright.proposers.templates.patterns.rows import MisfitError, RowProgram

MOST_PIECES = 8


def recognise_windows(graph: Graph, tensor: str, root: int, held: Mapping[int, str]) -> list[RowProgram]:
    """Programs that together make the node `root` from nodes that are `held` in tensors."""
    reason = "no operation"
    spaces, reduces = _spaces(graph, root, held)
    for rows, cols in spaces:
        try:
            return _Cutting(graph, tensor, root, held, rows, cols, may_cut=not reduces).programs()
        except (MisfitError, NotAffineError) as misfit:
            reason = str(misfit)
    raise CannotExpressError(f"{graph.task}: no template covers {reason}")


def _spaces(graph: Graph, root: int, held: Mapping[int, str]) -> tuple[list[tuple[Shape, Shape]], bool]:
    """Rows and columns: of the values that are reduced, or of the result's elements in as few rows as possible.

    And whether anything is reduced.
    """
    region, left = set[int](), [root]
    while left:
        place = left.pop()
        if place not in region and (place not in held or place == root):
            region.add(place)
            left += graph.nodes[place].inputs
    found: list[tuple[Shape, Shape]] = []
    for place in sorted(region):
        node = graph.nodes[place]
        if isinstance(node, Reduce) and not isinstance(node, Contraction):
            shape = graph.nodes[node.inputs[0]].shape
            kept = tuple(extent for dim, extent in enumerate(shape) if dim not in node.dims)
            found.append((kept, tuple(shape[dim] for dim in node.dims)))
    reduces = bool(found)
    if not found:
        whole = total(graph.nodes[root].shape)
        shapes = {graph.nodes[place].shape for place in region if total(graph.nodes[place].shape) == whole}
        for shape in sorted(shapes, key=lambda one: (-len(one), one != graph.nodes[root].shape)):
            found += [(shape[:split], shape[split:]) for split in range(len(shape))]
    return list(dict.fromkeys(found)), reduces


@dataclass(frozen=True)
class _Cutting:
    """Reads a result over one space, the columns cut into pieces where that is due."""

    graph: Graph
    tensor: str
    root: int
    held: Mapping[int, str]
    rows: Shape
    cols: Shape
    may_cut: bool

    def programs(self) -> list[RowProgram]:
        left, done = [ColumnPiece(0, size_of(total(self.cols)))], list[ColumnPiece]()
        while left:
            piece = left.pop(0)
            try:
                reading = self._reading(piece, whole=not left and not done)
            except CutError as cut:
                if len(left) + len(done) >= MOST_PIECES:
                    raise MisfitError(str(cut)) from cut
                place = plus(piece.start, cut.place)
                left = [ColumnPiece(piece.start, place), ColumnPiece(place, piece.end), *left]
                continue
            done.append(piece)
            if len(done) == 1 and not left:
                return [reading.program()]
        together: dict[Extent, list[ColumnPiece]] = {}
        for piece in done:
            together.setdefault(piece.extent, []).append(piece)
        return [self._reading(*pieces).program() for pieces in together.values()]

    def _reading(self, *pieces: ColumnPiece, whole: bool = False) -> WindowReading:
        """Of pieces that are equally long."""
        cols = self.cols if whole else (pieces[0].extent,)
        reading = WindowReading(self.graph, self.held, self.rows, cols, self.may_cut)
        for piece in pieces:
            reading.store(self.tensor, self.root, self.cols, None if whole else piece)
        return reading
