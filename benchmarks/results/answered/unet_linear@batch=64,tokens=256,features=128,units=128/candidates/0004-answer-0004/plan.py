import kw

AHEAD = 2  # tunable: AHEAD = 2, 1

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    rows, depth, units = x.size(0) * x.size(1), x.size(2), weight.size(0)
    vec = 4 if depth % 4 == 0 else 2 if depth % 2 == 0 else 1
    steps, tiles = 2 * ceil(depth, 16) if vec == 4 else ceil(depth, 8), ceil(rows, 32)
    best = None
    for slices in range(1, 9):
        wide = 16 * ceil(ceil(units, slices), 16)
        shared = 64 * steps * wide + 4 * wide
        if wide > 128 or shared > kw.device.shared_per_block:
            continue
        places = min(tiles, kw.device.multiprocessors // slices)
        cost = ceil(tiles, 4 * places) * (wide + 16)
        if best is None or cost < best[0]:
            best = (cost, slices, wide, shared, places)
    cost, slices, wide, shared, places = best
    return kw.plan(
        kw.launch("linear", slices * places, 256, x, weight, bias, out, shared=shared),
        definitions={"ROWS": rows, "DEPTH": depth, "UNITS": units, "VEC": vec, "WIDE": wide, "SLICES": slices,
                     "PLACES": places, "AHEAD": AHEAD})
