"""`kernel.json`: what a portable kernel computes, and where each of its variants is proved right and faster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from .dims import Dim

SCHEMA = 1
Number = float | int | bool


DEEPEST = 8  # levels of nested results

# What a call gives back where that is more than a tensor or a tuple of tensors: {"output": 0}, {"argument": 1},
# {"number": 3}, {"none": true}, {"tuple": [...]}, {"list": [...]}, {"dict": [[key, form], ...]} or
# {"named": [name, [[field, form], ...]]}, where the name of what an operator of torch returns begins with OF_TORCH.
Form = dict[str, Any]
OF_TORCH = "torch.return_types."


class ManifestError(ValueError):
    """A manifest that cannot be understood."""


@dataclass(frozen=True)
class OperationParameter:
    """An argument of the reference. A number has its value, the only one with which anything was proved, and no dims.

    `dtype` None: the dtype of the workload. `gradient`: the backward has a gradient for it. `draw` is how a self-test
    draws it: ("normal", mean, deviation), ("uniform", low, high) or ("integers", low, high).
    """

    name: str
    dims: tuple[Dim, ...] | None = None
    dtype: str | None = None
    gradient: bool = False
    inout: bool = False
    value: Number | None = None
    draw: tuple[str | Number, ...] = ("normal", 0.0, 1.0)

    @property
    def is_tensor(self) -> bool:
        return self.dims is not None


@dataclass(frozen=True)
class Output:
    name: str
    dims: tuple[Dim, ...]
    dtype: str | None = None
    differentiable: bool = False


@dataclass(frozen=True)
class CallParameter:
    """A parameter of the function that a user calls: the reference's parameter of another name or place, or a number
    that the reference has built in (`reference` is None) with the value it has there, or a tensor that is `unused`."""

    name: str
    reference: str | None
    fixed: Number | None = None
    default: Number | None = None
    unused: bool = False
    held: str = ""  # of a captured module: the name in it of the parameter or buffer that this is
    values: Any = None  # of a tensor that the code itself writes out, which no caller passes


@dataclass(frozen=True)
class OperationSpec:
    """What is computed. `returns`: what the reference gives back, "tensor", "tuple" or "none". `form`: what the
    function that it was captured from gives back, where that is anything else."""

    name: str
    parameters: tuple[OperationParameter, ...]
    outputs: tuple[Output, ...]
    returns: str
    call: tuple[CallParameter, ...]
    work: Dim
    form: Form | None = None

    @property
    def tensors(self) -> tuple[OperationParameter, ...]:
        return tuple(one for one in self.parameters if one.is_tensor)

    @property
    def differentiable(self) -> bool:
        return any(one.gradient for one in self.parameters) and any(one.differentiable for one in self.outputs)


@dataclass(frozen=True)
class UseRegion:
    """Sizes for which a kernel is proved right and held to be faster: every size within its range, and the work from
    `least` to `most`. `exactly`: these sizes alone."""

    ranges: dict[str, tuple[int, int]]
    least: int = 0
    most: int = 0
    exactly: bool = False

    def holds(self, sizes: Mapping[str, int], work: int) -> bool:
        inside = all(low <= sizes[name] <= high for name, (low, high) in self.ranges.items())
        return inside and (self.exactly or self.least <= work <= self.most)


@dataclass(frozen=True)
class ProvedVariant:
    """One proved kernel for one dtype. `file` is relative to the manifest.

    `features` are what the binary needs of a processor; `device` is the one on which its speed was measured.
    `stateless`: it keeps nothing between calls, so that threads may call it at once. `domain`: where it is proved
    right, faster or not; None where the declared domain was not checked. `regions`: where it is used.
    """

    id: str
    contract: str
    kind: str
    dtype: str
    file: str
    sha256: str
    certificate: str
    device: str
    features: tuple[str, ...]
    threads: int
    deterministic: bool
    stateless: bool
    openmp: bool
    alignment: int
    domain: dict[str, tuple[int, int]] | None
    regions: tuple[UseRegion, ...]
    speedup: float

    @property
    def proved_part(self) -> dict[str, Any]:
        """All that the certificate vouches for: everything but where the files are."""
        return {key: value for key, value in asdict(self).items() if key not in ("file", "certificate")}


@dataclass(frozen=True)
class Manifest:
    operation: OperationSpec
    namespace: str
    reference_sha256: str
    forward: tuple[ProvedVariant, ...]
    backward: tuple[ProvedVariant, ...] = ()
    notes: tuple[str, ...] = ()  # where a kernel could be used, and is not, and why
    schema: int = SCHEMA

    @property
    def variants(self) -> tuple[ProvedVariant, ...]:
        return (*self.forward, *self.backward)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def digest(value: Any) -> str:
    """Of plain data, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def proved_digest(operation: OperationSpec, direction: str, variant: ProvedVariant) -> str:
    """What a certificate signs of a manifest: what is computed, and where this variant is used for it."""
    plain = {"operation": _signed(operation), "direction": direction, "variant": variant.proved_part}
    return digest(json.loads(json.dumps(plain)))


def _signed(operation: OperationSpec) -> dict[str, Any]:
    """Without fields that were added later, where they say nothing: what was signed before stays valid."""
    plain = asdict(operation)
    if plain["form"] is None:
        del plain["form"]
    for one in plain["call"]:
        for added, nothing in (("held", ""), ("values", None)):
            if one[added] == nothing:
                del one[added]
    return plain


def parsed(text: str) -> Manifest:
    try:
        raw = json.loads(text, parse_constant=_refused)
        if raw["schema"] != SCHEMA:
            raise ManifestError(f"kernel.json is of version {raw['schema']!r:.20}; this runtime reads {SCHEMA}")
        return Manifest(
            operation=_operation(raw["operation"]),
            namespace=_text(raw["namespace"]),
            reference_sha256=_text(raw["reference_sha256"]),
            forward=tuple(map(_variant, raw["forward"])),
            backward=tuple(map(_variant, raw["backward"])),
            notes=tuple(map(_text, raw.get("notes", ()))),
        )
    except ManifestError:
        raise
    except (ArithmeticError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ManifestError(f"kernel.json cannot be understood ({type(error).__name__})") from None


def _operation(raw: Mapping[str, Any]) -> OperationSpec:
    form = checked_form(raw.get("form"), len(raw["outputs"]), len(raw["call"]))
    return OperationSpec(
        name=_text(raw["name"]),
        parameters=tuple(
            OperationParameter(**{**one, "dims": _dims(one["dims"]), "draw": tuple(one["draw"])})
            for one in raw["parameters"]
        ),
        outputs=tuple(Output(**{**one, "dims": tuple(one["dims"])}) for one in raw["outputs"]),
        returns=_text(raw["returns"]),
        call=tuple(CallParameter(**one) for one in raw["call"]),
        work=raw["work"],
        form=form,
    )


def _variant(raw: Mapping[str, Any]) -> ProvedVariant:
    names = {field.name for field in fields(ProvedVariant)}
    if set(raw) != names:
        raise ManifestError("kernel.json has a variant with other fields than this runtime knows")
    for name in ("id", "contract", "kind", "dtype", "sha256", "device"):
        _text(raw[name])
    for name in ("file", "certificate"):
        if "\0" in _text(raw[name]):
            raise ManifestError("kernel.json names a file that cannot be")
    regions = tuple(UseRegion(**{**one, "ranges": _ranges(one["ranges"])}) for one in raw["regions"])
    domain = None if raw["domain"] is None else _ranges(raw["domain"])
    return ProvedVariant(**{**raw, "features": tuple(raw["features"]), "domain": domain, "regions": regions})


def _ranges(raw: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, int]]:
    return {name: (int(low), int(high)) for name, (low, high) in raw.items()}


def _dims(raw: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    return None if raw is None else tuple(raw)


def _refused(number: str) -> None:
    raise ManifestError(f"kernel.json has the number {number}")


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ManifestError("kernel.json has something else where text belongs")
    return raw


def checked_form(form: Any, outputs: int, arguments: int, depth: int = 0) -> Form | None:
    """A form of others, before anything is done with it."""
    if form is None and depth == 0:
        return None
    if not isinstance(form, dict) or len(form) != 1 or depth > DEEPEST:
        raise ManifestError("a form of results is not one of the known")
    ((kind, value),) = form.items()
    bounds = {"output": outputs, "argument": arguments}
    if kind in bounds:
        if type(value) is not int or not 0 <= value < bounds[kind]:
            raise ManifestError(f"a form of results names {kind} {value!r:.20}")
    elif kind in ("tuple", "list"):
        _check_each(value, outputs, arguments, depth)
    elif kind == "dict":
        if not all(isinstance(key, str | int) for key, _ in value):
            raise ManifestError("a form of results has a key that is neither text nor a number")
        _check_each([one for _, one in value], outputs, arguments, depth)
    elif kind == "named":
        name, parts = value
        plain = name.removeprefix(OF_TORCH) if isinstance(name, str) else name
        if not all(isinstance(one, str) and one.isidentifier() for one in (plain, *(field for field, _ in parts))):
            raise ManifestError("a form of results has a name that is not one")
        _check_each([one for _, one in parts], outputs, arguments, depth)
    elif not (kind == "none" and value is True) and not (kind == "number" and isinstance(value, bool | int | float)):
        raise ManifestError("a form of results is not one of the known")
    return form


def _check_each(forms: Any, outputs: int, arguments: int, depth: int) -> None:
    if not isinstance(forms, list):
        raise ManifestError("a form of results has something else where a list belongs")
    for one in forms:
        checked_form(one, outputs, arguments, depth + 1)
