import kw

WARM = 0  # tunable: WARM = 0, 1

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    rows, features, units = x.size(0), x.size(1), weight.size(0)
    strips, shares = ceil(features, 32), ceil(rows, units)
    return kw.plan(
        kw.launch("backward", units * strips + ceil(rows * strips, shares), 32 * shares,
                  grad_out, weight, x, grad_x, grad_weight, grad_bias),
        definitions={"ROWS": rows, "FEATURES": features, "UNITS": units, "WARM": WARM})
