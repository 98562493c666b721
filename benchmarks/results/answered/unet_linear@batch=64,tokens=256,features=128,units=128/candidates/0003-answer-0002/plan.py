import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    rows, depth, units = x.size(0) * x.size(1), x.size(2), weight.size(0)
    vec = 4 if depth % 4 == 0 else 2 if depth % 2 == 0 else 1
    chunks, tiles = ceil(depth, 32), ceil(rows, 64)
    best = None
    for slices in range(1, 9):
        wide = 8 * ceil(ceil(units, slices), 8)
        shared = 256 * chunks * wide + 1024 + 4 * wide
        if wide < 32 or wide > 128 or shared > kw.device.shared_per_block:
            continue
        places = min(tiles, kw.device.multiprocessors // slices)
        cost = ceil(tiles, places) * (wide + 16)
        if best is None or cost < best[0]:
            best = (cost, slices, wide, shared, places)
    cost, slices, wide, shared, places = best
    ahead = {1: 1, 2: 2, 3: 3, 4: 4, 5: 3, 6: 3, 7: 4, 8: 4}[chunks]
    return kw.plan(
        kw.launch("linear", slices * places, 256, x, weight, bias, out, shared=shared),
        definitions={"ROWS": rows, "DEPTH": depth, "UNITS": units, "VEC": vec, "WIDE": wide, "SLICES": slices,
                     "PLACES": places, "AHEAD": ahead})
