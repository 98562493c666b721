"""Makes a pure function of an exported graph: without chance, without changes to its arguments, without assertions.

A KernelBench problem is run in training mode, as that benchmark does: batch normalisation normalises by the batch. Its
running statistics are not a result, so their update goes. Dropout draws numbers, so it goes too.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch.export.graph_signature import OutputKind

from kernelwright.tasks.imported.confined.tape import TapeStep, Untraceable, draws, storage_of

aten = torch.ops.aten
DROPOUTS = {"dropout", "dropout_", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
KEPT = RECURRENT | {"scaled_dot_product_attention"}  # they draw nothing without dropout
ASSERTIONS = {"_assert_scalar", "_assert_async", "_assert_tensor_metadata", "sym_constrain_range"}
ASSERTIONS |= {"sym_constrain_range_for_size", "_functional_assert_scalar"}


def packet(node: Any) -> str:
    found = getattr(node.target, "overloadpacket", None)
    return str(found.__name__) if found is not None else ""


def purify(exported: Any, unwritten: Set[str] = frozenset()) -> list[str]:
    """Returns notes of what was taken out. `unwritten` are placeholders for results, which the graph may change."""
    module = exported.graph_module
    graph = module.graph
    _drop_new_states(graph, exported.graph_signature)
    notes = inline_blocks(module)
    for node in list(graph.nodes):
        if node.op == "get_attr" or (
            node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator)
        ):
            raise Untraceable("it has control flow, which cannot be written down")
        name = packet(node)
        if name in ASSERTIONS:
            graph.erase_node(node)
        elif name in DROPOUTS:
            notes |= _without_dropout(node)
        elif name in ("batch_norm", "instance_norm"):
            notes |= _without_statistics(node)
        elif name == "scaled_dot_product_attention" or name in RECURRENT:
            notes |= _without_inner_dropout(node)
        elif name == "rrelu":
            notes |= {"dropout"} if argument(node, "training") else set()
            set_argument(node, "training", False)
        _fix_dtype(node)
    _drop_unused(graph)
    notes |= _random_numbers_as_inputs(graph)
    notes |= _copy_what_changes(graph, unwritten)
    _copy_what_is_returned(graph)
    graph.lint()
    return sorted(notes)


def _drop_new_states(graph: Any, signature: Any) -> None:
    """A buffer that the code assigns comes back as one more result."""
    output = next(node for node in graph.nodes if node.op == "output")
    kinds = [spec.kind for spec in signature.output_specs]
    results = zip(output.args[0], kinds, strict=True)
    output.args = (tuple(result for result, kind in results if kind is OutputKind.USER_OUTPUT),)


DRAWN = "kernelwright_drawn"  # in a placeholder's meta: how its values are drawn


def _random_numbers_as_inputs(graph: Any) -> set[str]:
    """Two implementations never draw the same numbers, so that both are given them."""
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    found: set[str] = set()
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.nondeterministic_seeded not in node.target.tags or changed_by(node) or packet(node) in KEPT:
            continue
        drawn = draws(TapeStep(node.target, node.args, dict(node.kwargs), node.meta["val"]))
        if drawn is None or drawn.of not in ("uniform", "normal", "integers"):
            raise Untraceable(f"it draws random numbers by {packet(node)}: draw them where the inputs are made")
        with graph.inserting_after(last):
            last = graph.placeholder(f"drawn{len(found)}")
        last.meta = {"val": node.meta["val"], DRAWN: drawn}
        node.replace_all_uses_with(last)
        graph.erase_node(node)
        found.add(last.name)
    return {"drawn_numbers"} if found else set()


BLOCKS = {"wrap_with_set_grad_enabled"}


def inline_blocks(module: Any) -> set[str]:
    """Blocks under `torch.no_grad()`. No gradient flows through one inside of a function; where it makes all results,
    it says no more than that its author wanted no gradients, and they are derived as of any function."""
    notes: set[str] = set()
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or getattr(node.target, "__name__", "") not in BLOCKS:
            continue
        enabled, inner, *given = node.args
        block = getattr(module, inner.target)
        notes |= inline_blocks(block)
        places = [one for one in block.graph.nodes if one.op == "placeholder"]
        with graph.inserting_before(node):
            made = graph.graph_copy(block.graph, dict(zip(places, given, strict=True)))
        results = list(made) if isinstance(made, list | tuple) else [made]
        for user in list(node.users):
            result = results[user.args[1]]
            if not enabled and any(further.op != "output" for further in user.users):
                with graph.inserting_before(user):
                    kept = graph.call_function(aten.detach.default, (result,))
                kept.meta["val"] = user.meta.get("val", result.meta.get("val"))
                result, notes = kept, notes | {"without_gradients"}
            user.replace_all_uses_with(result)
            graph.erase_node(user)
        graph.erase_node(node)
        if not inner.users:
            graph.erase_node(inner)
    return notes


def _place(node: Any, name: str) -> int | None:
    names = [found.name for found in node.target._schema.arguments]
    return names.index(name) if name in names else None


def argument(node: Any, name: str) -> Any:
    place = _place(node, name)
    if place is None:
        return None
    if place < len(node.args):
        return node.args[place]
    return node.kwargs.get(name, node.target._schema.arguments[place].default_value)


def set_argument(node: Any, name: str, value: Any) -> None:
    place = _place(node, name)
    assert place is not None
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


def _without_dropout(node: Any) -> set[str]:
    drops = argument(node, "train") is True and argument(node, "p") != 0
    if packet(node) == "native_dropout":
        raise Untraceable("it uses the mask of a dropout: draw the mask in get_inputs")
    node.replace_all_uses_with(node.args[0])
    node.graph.erase_node(node)
    return {"dropout"} if drops else set()


def _without_statistics(node: Any) -> set[str]:
    if not (argument(node, "training") is True or argument(node, "use_input_stats") is True):
        return set()
    kept = argument(node, "running_mean") is not None
    set_argument(node, "running_mean", None)
    set_argument(node, "running_var", None)
    return {"batch_statistics"} if kept else set()


def _without_inner_dropout(node: Any) -> set[str]:
    name = "dropout_p" if _place(node, "dropout_p") is not None else "dropout"
    drops = argument(node, name) != 0 and argument(node, "train") is not False
    set_argument(node, name, 0.0)
    return {"dropout"} if drops else set()


def _fix_dtype(node: Any) -> None:
    """What a factory makes is said, so that it can follow the inputs when those are widened."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return
    made = node.meta.get("val")
    if _place(node, "dtype") is None or not isinstance(made, torch.Tensor) or not made.is_floating_point():
        return
    tensors = [given for given in node.all_input_nodes if isinstance(given.meta.get("val"), torch.Tensor)]
    if not tensors and argument(node, "dtype") is None:
        node.update_kwarg("dtype", made.dtype)


def changed_by(node: Any) -> list[Any]:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return []
    found = []
    for place, declared in enumerate(node.target._schema.arguments):
        if declared.alias_info is not None and declared.alias_info.is_write:
            given = node.args[place] if place < len(node.args) else node.kwargs.get(declared.name)
            found += [given] if isinstance(given, torch.fx.Node) else []
    return found


def _drop_unused(graph: Any) -> None:
    """Also what changes an argument that nothing else reads, as the count of batches."""
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node.users:
            continue
        changed = changed_by(node)
        if all(given.op == "placeholder" and set(given.users) == {node} for given in changed):
            graph.erase_node(node)


def _copy_what_changes(graph: Any, unwritten: Set[str]) -> set[str]:
    """An argument that is changed in place is copied first: the reference leaves its arguments as they are."""
    holders = {storage_of(node.meta["val"]): node for node in graph.nodes if _holds(node)}
    changed = {}
    for node in graph.nodes:
        for given in changed_by(node):
            value = given.meta.get("val")
            if isinstance(value, torch.Tensor) and storage_of(value) in holders:
                holder = holders[storage_of(value)]
                changed[holder.name] = holder
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for holder in changed.values():
        with graph.inserting_after(last):
            copy = graph.call_function(aten.clone.default, (holder,))
        copy.meta["val"] = torch.empty_like(holder.meta["val"])
        holder.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
    return {"changed_input"} if set(changed) - unwritten else set()


def _holds(node: Any) -> bool:
    return node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)


def _copy_what_is_returned(graph: Any) -> None:
    """A result that is an argument, a view of one, or another result: each gets memory of its own."""
    output = next(node for node in graph.nodes if node.op == "output")
    taken = {storage_of(node.meta["val"]) for node in graph.nodes if _holds(node)}
    results = []
    for result in output.args[0]:
        if result is None:
            continue
        value = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            raise Untraceable("it returns something other than tensors")
        if storage_of(value) in taken:
            with graph.inserting_before(output):
                result = graph.call_function(aten.clone.default, (result,))
            result.meta["val"] = value
        taken.add(storage_of(value))
        results.append(result)
    if not results:
        raise Untraceable("it returns no tensor")
    output.args = (tuple(results),)
