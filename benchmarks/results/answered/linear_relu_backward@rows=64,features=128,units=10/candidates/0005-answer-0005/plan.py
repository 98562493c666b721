import kw

SCOUT = 1  # tunable: SCOUT = 1, 0
ACROSS = 4  # tunable: ACROSS = 4, 8
WARM = 1  # tunable: WARM = 1, 0

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, saved_out, grad_out, grad_x, grad_weight, grad_bias):
    rows, features, units = x.size(0), x.size(1), weight.size(0)
    vector = 4 if features % 4 == 0 else 2 if features % 2 == 0 else 1
    columns = max(2, vector)
    work = ceil(features, ACROSS * columns) * (units + ceil(rows, 32 // ACROSS))
    warps = 1
    while warps < 4 and work > 2 * warps * kw.device.multiprocessors:
        warps *= 2
    return kw.plan(
        kw.launch("backward", ceil(work, warps), 32 * (warps + SCOUT),
                  grad_out, saved_out, weight, x, grad_x, grad_weight, grad_bias),
        definitions={"ROWS": rows, "FEATURES": features, "UNITS": units, "VECTOR": vector, "COLUMNS": columns,
                     "ACROSS": ACROSS, "WARPS": warps, "SCOUT": SCOUT, "WARM": WARM})
