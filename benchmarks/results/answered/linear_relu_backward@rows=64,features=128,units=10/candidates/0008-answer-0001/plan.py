import kw

WARPS = 16  # tunable: WARPS = 8, 4, 16

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, saved_out, grad_out, grad_x, grad_weight, grad_bias):
    rows, features, units = x.size(0), x.size(1), weight.size(0)
    blocks = units * ceil(features, 32) + ceil(rows * features, 32 * WARPS)
    return kw.plan(
        kw.launch("backward", blocks, 32 * WARPS,
                  grad_out, saved_out, x, weight, grad_x, grad_weight, grad_bias),
        definitions={"ROWS": rows, "FEATURES": features, "UNITS": units, "WARPS": WARPS})
