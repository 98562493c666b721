"""The bodies of generic steps, the same for C++ and CUDA: what one thread does for its element, row or result."""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.proposers.templates.graph import Reduce
from kernelwright.proposers.templates.nests.index_maps import Ranked, Scan
from kernelwright.proposers.templates.nests.nest_code import Fold, NestCode, computed
from kernelwright.proposers.templates.patterns.nests import NestStep

StoreText = Callable[[str, str], str]  # the number of an element and its value


def element_body(code: NestCode, step: NestStep, at: tuple[str, ...], number: str, store: StoreText) -> None:
    """For the element of the step's space with the index `at`, whose number is `number`."""
    root = step.root
    if step.node in step.reads:
        code.lines.append(store(number, code.value(step.node, at)))
        return
    match root:
        case Scan():
            _scan(code, step, root, at, store)
        case Ranked():
            _rank(code, step, root, at, store)
        case Reduce():
            code.lines.append(store(number, code.reduced(root, at)))
        case _:
            code.lines.append(store(number, code.value(step.node, at)))


def _scan(code: NestCode, step: NestStep, root: Scan, at: tuple[str, ...], store: StoreText) -> None:
    """One row, in double where it adds up floats: errors of a long sum would pile up."""
    dtype = code.graph.nodes[root.inputs[0]].dtype
    floats = computed(dtype) in ("float", "double")
    kind = "double" if floats and root.operation in ("sum", "prod", "logsumexp") else computed(dtype)
    start = {"sum": "0", "prod": "1", "logsumexp": "0"}.get(root.operation, "0")
    code.lines.append(f"{kind} so_far = {start};")
    code.lines.append("long long place = -1;")
    if root.operation == "logsumexp":
        code.lines.append("double top = nest_lowest<double>();")
    index, size = code.target.index, code.target.size(root.shape[root.dim])
    with code.block(f"for ({index} r = 0; r < {size}; ++r)"):
        here = (*at[: root.dim], "r", *at[root.dim :])
        value = code.value(root.inputs[0], here)
        result = "so_far"
        match root.operation:
            case "sum" | "prod":
                code.lines.append(f"so_far {'+' if root.operation == 'sum' else '*'}= {value};")
            case "logsumexp":
                code.lines.append(f"const double most = nest_most<double>(top, {value});")
                code.lines.append("if (most == nest_lowest<double>()) so_far = 0;")
                code.lines.append("else if (most == nest_highest<double>()) so_far = 1;")
                code.lines.append(f"else so_far = so_far * nest_exp(top - most) + nest_exp({value} - most);")
                code.lines.append("top = most;")
                result = "top + nest_log(so_far)"
            case _:
                sign = ">=" if root.operation.endswith("max") else "<="
                better = f"place < 0 || {value} {sign} so_far || {value} != {value}"
                lost = "place >= 0 && so_far != so_far"
                code.lines.append(f"if (!({lost}) ? ({better}) : {value} != {value}) so_far = {value}, place = r;")
                result = "place" if root.operation.startswith("arg") else "so_far"
        number = code.simple(code.linear(root.shape, here))
        code.lines.append(store(number, f"static_cast<{computed(root.dtype)}>({result})"))


def _rank(code: NestCode, step: NestStep, root: Ranked, at: tuple[str, ...], store: StoreText) -> None:
    """How many elements of its row come before this one is where it goes; NaN is larger than any number."""
    shape = code.graph.nodes[root.inputs[0]].shape
    index, here = code.target.index, at[root.dim]
    own = code.value(root.inputs[0], at)
    code.lines.append(f"{index} rank = 0;")
    with code.block(f"for ({index} r = 0; r < {code.target.size(shape[root.dim])}; ++r)"):
        other = code.value(root.inputs[0], (*at[: root.dim], "r", *at[root.dim + 1 :]))
        one, two = (own, other) if root.descending else (other, own)
        code.lines.append(f"rank += nest_below({one}, {two}) || (!nest_below({two}, {one}) && r < {here});")
    with code.block(f"if (rank < {code.target.size(root.shape[root.dim])})"):
        number = code.simple(code.linear(root.shape, (*at[: root.dim], "rank", *at[root.dim + 1 :])))
        code.lines.append(store(number, f"static_cast<long long>({here})" if root.places else own))


def fold_of(step: NestStep) -> Fold:
    root = step.root
    assert isinstance(root, Reduce)
    return Fold(root, step.graph.nodes[root.inputs[0]].dtype)


FUNCTIONS = """\
template <class T> @D@ T nest_most(T a, T b) { return a > b || a != a ? a : b; }
template <class T> @D@ T nest_least(T a, T b) { return a < b || a != a ? a : b; }
template <class T> @D@ T nest_max(T a, T b) { return a > b ? a : b; }
template <class T> @D@ T nest_min(T a, T b) { return a < b ? a : b; }
template <class T> @D@ bool nest_below(T a, T b) { return a < b || (b != b && a == a); }
template <class T> @D@ T nest_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <class T> @D@ bool nest_isnan(T x) { return x != x; }
template <class T> @D@ T nest_abs(T x) { return x < T(0) ? -x : x == T(0) ? T(0) : x; }
template <class T> @D@ T nest_lowest();
template <class T> @D@ T nest_highest();
template <> @D@ float nest_lowest<float>() { return -@INF@; }
template <> @D@ float nest_highest<float>() { return @INF@; }
template <> @D@ double nest_lowest<double>() { return -static_cast<double>(@INF@); }
template <> @D@ double nest_highest<double>() { return static_cast<double>(@INF@); }
template <> @D@ long long nest_lowest<long long>() { return -9223372036854775807LL - 1; }
template <> @D@ long long nest_highest<long long>() { return 9223372036854775807LL; }
template <> @D@ bool nest_lowest<bool>() { return false; }
template <> @D@ bool nest_highest<bool>() { return true; }
template <class T> @D@ bool nest_isinf(T x) { return x == nest_highest<T>() || x == nest_lowest<T>(); }
@ELEMENTARY@
@D@ float nest_round(float x) { return @STD@rintf(x); }
@D@ double nest_round(double x) { return @STD@rint(x); }
template <class T> @D@ T nest_remainder(T a, T b) {
  const T r = nest_fmod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
@D@ long long nest_fmod(long long a, long long b) { return a % b; }
@D@ long long nest_remainder(long long a, long long b) {
  const long long r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
@D@ float nest_floor_div(float a, float b) { return nest_floor(a / b); }
@D@ double nest_floor_div(double a, double b) { return nest_floor(a / b); }
@D@ long long nest_floor_div(long long a, long long b) {
  const long long q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
@D@ float nest_trunc_div(float a, float b) { return nest_trunc(a / b); }
@D@ double nest_trunc_div(double a, double b) { return nest_trunc(a / b); }
@D@ long long nest_trunc_div(long long a, long long b) { return a / b; }
@D@ long long nest_pow(long long a, long long b) {
  long long made = 1;
  for (; b > 0; --b) made *= a;
  return made;
}
"""
_ONE = (
    *("exp", "log", "sqrt", "tanh", "erf", "log1p", "expm1", "sin", "cos", "floor", "ceil", "trunc", "tan", "asin"),
    *("acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "log2", "log10", "erfc"),
)
_TWO = ("pow", "atan2", "fmod", "hypot", "copysign")


def functions(declared: str, infinity: str, library: str) -> str:
    """`declared` stands before a function, `library` before the names of elementary ones."""
    lines = []
    for name in _ONE:
        lines.append(f"{declared} float nest_{name}(float x) {{ return {library}{name}f(x); }}")
        lines.append(f"{declared} double nest_{name}(double x) {{ return {library}{name}(x); }}")
    for name in _TWO:
        lines.append(f"{declared} float nest_{name}(float x, float y) {{ return {library}{name}f(x, y); }}")
        lines.append(f"{declared} double nest_{name}(double x, double y) {{ return {library}{name}(x, y); }}")
    text = FUNCTIONS.replace("@ELEMENTARY@", "\n".join(lines))
    return text.replace("@D@", declared).replace("@INF@", infinity).replace("@STD@", library)
