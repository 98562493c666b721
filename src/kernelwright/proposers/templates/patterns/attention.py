"""Attention: a product, a softmax along its rows, and a product with that, which needs none of it in memory.

What is between the first product and the softmax may be anything for each element: a scale, a bias, a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from kernelwright.proposers.templates.graph import (
    Broadcast,
    Constant,
    Extent,
    Formula,
    Graph,
    Node,
    Number,
    Pointwise,
    Reduce,
    ViewNode,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import Contraction, Index, IndexMap
from kernelwright.proposers.templates.patterns.contractions import (
    ContractionForm,
    ContractionOperand,
    recognise_contraction,
)
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.rows import RowProgram

MOST_HEAD = 256


@dataclass(frozen=True)
class AttentionForm:
    """`scores` has the axes (lead..., query, key; depth), `values` (lead..., query, column; key)."""

    scores: ContractionForm
    values: ContractionForm
    query: int  # which operand of the scores
    value: int  # which operand of the values
    factors: tuple[Number, ...]  # of the scores
    product: int  # the node that the first product is
    score: int  # the node that the softmax is of
    safe: bool  # a row without any key gives zeros, not NaN
    scale: tuple[Number, ...] | None = None  # the score is the product times these, and a causal mask if there is one
    causal: bool = False  # to a score whose key comes after its query -inf is added

    @property
    def operands(self) -> tuple[ContractionOperand, ContractionOperand, ContractionOperand]:
        """Query, key and value."""
        return (
            self.scores.operands[self.query],
            self.scores.operands[1 - self.query],
            self.values.operands[self.value],
        )


@dataclass(frozen=True)
class AttentionStep:
    """`mask` is the generic step whose value is the score: it says what an element is made of, and is not run."""

    form: AttentionForm
    query: str
    key: str
    value: str
    output: str
    mask: NestStep
    epilogue: RowProgram | None = None
    pattern: ClassVar[str] = "attention"

    @property
    def reads(self) -> tuple[str, ...]:
        others = [tensor for place, tensor in self.mask.reads.items() if place != self.form.product]
        return tuple(dict.fromkeys((self.query, self.key, self.value, *others)))


def recognise_attention(graph: Graph, place: int) -> AttentionForm | None:
    values = recognise_contraction(graph, place)
    if values is None or len([a for a in values.of("depth") if not values.axes[a].extent.single]) != 1:
        return None
    for weights in (0, 1):
        found = _softmax(graph, _base(graph, values.operands[weights].node))
        if found is None:
            continue
        score, safe = found
        product = _product_below(graph, score)
        factors: list[Number] = []
        scores = recognise_contraction(graph, product, factors) if product is not None else None
        if scores is None or product is None:
            continue
        query = _query(scores)
        unmasked = _below_causal_mask(graph, score)
        scale = _scale(graph, score if unmasked is None else unmasked, product)
        causal = unmasked is not None and scale is not None
        form = query is not None and AttentionForm(
            scores, values, query, 1 - weights, tuple(factors), product, score, safe, scale, causal
        )
        if form and _fits(graph, form, weights):
            return form
    return None


def _base(graph: Graph, place: int) -> int:
    while isinstance(graph.nodes[place], ViewNode):
        place = graph.nodes[place].inputs[0]
    return place


def _is(node: Node, operation: str) -> bool:
    return isinstance(node, Pointwise) and node.operation == operation


def _softmax(graph: Graph, place: int) -> tuple[int, bool] | None:
    """The node whose softmax along the last dimension this is, and whether rows of -inf give zeros."""
    node, safe = graph.nodes[place], False
    if _is(node, "where"):
        chosen = graph.nodes[_plain(graph, node.inputs[1])]
        if not isinstance(chosen, Constant) or chosen.value != 0:
            return None
        if not _finds_nothing(graph, node.inputs[0]):
            return None
        node, safe = graph.nodes[node.inputs[2]], True
    if not _is(node, "div"):
        return None
    power, sums = node.inputs[0], graph.nodes[_base(graph, node.inputs[1])]
    exp = graph.nodes[power]
    if not (isinstance(sums, Reduce) and sums.operation == "sum" and sums.inputs == (power,) and _last(graph, sums)):
        return None
    if not _is(exp, "exp") or not _is(graph.nodes[exp.inputs[0]], "sub"):
        return None
    score, most = graph.nodes[exp.inputs[0]].inputs
    largest = graph.nodes[_base(graph, most)]
    matches = isinstance(largest, Reduce) and largest.operation == "max" and largest.inputs == (score,)
    return (score, safe) if matches and isinstance(largest, Reduce) and _last(graph, largest) else None


def _plain(graph: Graph, place: int) -> int:
    while isinstance(graph.nodes[place], Broadcast | ViewNode):
        place = graph.nodes[place].inputs[0]
    return place


def _finds_nothing(graph: Graph, place: int) -> bool:
    """Not any that is not equal to -inf."""
    inner = graph.nodes[place]
    if not _is(inner, "logical_not"):
        return False
    found = graph.nodes[_base(graph, inner.inputs[0])]
    if not isinstance(found, Reduce) or found.operation != "any" or not _last(graph, found):
        return False
    some = graph.nodes[found.inputs[0]]
    return _is(some, "logical_not") and _is(graph.nodes[some.inputs[0]], "eq")


def _last(graph: Graph, node: Reduce) -> bool:
    return node.dims == (len(graph.nodes[node.inputs[0]].shape) - 1,)


def _product_below(graph: Graph, score: int) -> int | None:
    """The one contraction that the score is made of, element for element."""
    count = total(graph.nodes[score].shape)
    found: set[int] = set()
    left, seen = [score], set[int]()
    while left:
        place = left.pop()
        node = graph.nodes[place]
        if place in seen:
            continue
        seen.add(place)
        if isinstance(node, Contraction) and total(node.shape) == count:
            found.add(place)
        elif isinstance(node, Pointwise | ViewNode) and total(node.shape) == count:
            left += node.inputs
        elif _holds_contraction(graph, place):
            return None
    return found.pop() if len(found) == 1 else None


def _below_causal_mask(graph: Graph, score: int) -> int | None:
    """What 0 is added to where the key is at the query's place or before it, and -inf elsewhere."""
    node = graph.nodes[score]
    if not _is(node, "add"):
        return None
    for masked, mask in (node.inputs, node.inputs[::-1]):
        same = graph.nodes[masked].shape == node.shape and graph.nodes[mask].shape == node.shape[-2:]
        if same and _is_causal_mask(graph, graph.nodes[mask]):
            return masked
    return None


def _is_causal_mask(graph: Graph, node: Node) -> bool:
    if not _is(node, "where"):
        return False
    visible, (kept, hidden) = graph.nodes[node.inputs[0]], (_constant(graph, place) for place in node.inputs[1:])
    if not isinstance(visible, IndexMap) or visible.fill or (kept, hidden) != (0, -inf):
        return False
    query, key = Index("i", (0,)), Index("i", (1,))
    return visible.guard == Index("<=", (key, query)) and _constant(graph, visible.inputs[0]) is True


def _constant(graph: Graph, place: int) -> Number | None:
    node = graph.nodes[_plain(graph, place)]
    return node.value if isinstance(node, Constant) else None


def _scale(graph: Graph, score: int, product: int) -> tuple[Number, ...] | None:
    """The numbers that the product is multiplied with, if nothing else happens to it."""
    found: list[Number] = []
    while score != product:
        node = graph.nodes[score]
        if isinstance(node, ViewNode):
            score = node.inputs[0]
            continue
        if not (_is(node, "mul") or _is(node, "div")):
            return None
        numbers = [_constant(graph, place) for place in node.inputs]
        other = 1 if numbers[1] is not None else 0
        number = numbers[other]
        if number is None or isinstance(number, bool) or (other == 0 and _is(node, "div")):
            return None
        found.append(Formula("/", (1.0, number)) if _is(node, "div") else number)
        score = node.inputs[1 - other]
    return tuple(found)


def _holds_contraction(graph: Graph, place: int) -> bool:
    left, seen = [place], set[int]()
    while left:
        one = left.pop()
        if isinstance(graph.nodes[one], Contraction | Reduce):
            return True
        if one not in seen:
            left += graph.nodes[one].inputs
        seen.add(one)
    return False


def _query(scores: ContractionForm) -> int | None:
    """The operand with the second last axis; the other one has the last."""
    kept = scores.kept
    if len(kept) < 2 or any(operand.guarded for operand in scores.operands):
        return None
    for one in (0, 1):
        own, other = scores.operands[one].axes, scores.operands[1 - one].axes
        if kept[-2] in own - other and kept[-1] in other - own:
            return one
    return None


def _fits(graph: Graph, form: AttentionForm, weights: int) -> bool:
    """Weights lie as the scores do, and heads are not too large."""
    scores, values = form.scores, form.values
    kept, key = values.kept, next(a for a in values.of("depth") if not values.axes[a].extent.single)
    if len(kept) < 2:
        return False
    query, column = kept[-2], kept[-1]
    length, keys = (scores.axes[axis].extent for axis in scores.kept[-2:])
    if (values.axes[query].extent, values.axes[key].extent) != (length, keys):
        return False
    strides = _strides(values.operands[weights])
    wanted: dict[int, Extent] = {key: Extent(1, 1), query: keys}
    behind = length * keys
    for axis in reversed(kept[:-2]):
        wanted[axis] = behind
        behind = behind * values.axes[axis].extent
    own = {axis: stride for axis, stride in wanted.items() if not values.axes[axis].extent.single}
    heads = (scores.extent(scores.of("depth")), values.axes[column].extent)
    small = all((graph.most(head) or MOST_HEAD + 1) <= MOST_HEAD for head in heads)
    value = values.operands[form.value]
    plain = not any(operand.guarded for operand in values.operands) and query not in value.axes
    dtypes = {operand.dtype for operand in form.operands}
    return strides == own and small and plain and len(dtypes) == 1 and values.dtype in ("float32", *dtypes)


def _strides(operand: ContractionOperand) -> dict[int, Extent]:
    found: dict[int, Extent] = {}
    behind = Extent(1, 1)
    for subscript in reversed(operand.subscripts):
        for axis, coefficient in subscript.terms:
            found[axis] = coefficient * behind
        behind = behind * subscript.size
    return found
