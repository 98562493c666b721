import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    rows, depth, units = x.size(0) * x.size(1), x.size(2), weight.size(0)
    chunks, tiles = ceil(depth, 32), ceil(rows, 64)
    best = None
    for slices in range(1, 9):
        wide = 8 * ceil(ceil(units, slices), 8)
        slab = 16 * (max(units, depth) if units % 4 and slices == 1 else depth) + 32
        shared = 256 * chunks * wide + 8 * slab * 4 + 1024 + 4 * wide + 64
        if wide < 32 or wide > 128 or shared > kw.device.shared_per_block:
            continue
        places = min(tiles, kw.device.multiprocessors // slices)
        cost = ceil(tiles, places) * (wide + 16)
        if best is None or cost < best[0]:
            best = (cost, slices, wide, shared, places)
    cost, slices, wide, shared, places = best
    return kw.plan(
        kw.launch("linear", slices * places, 256, x, weight, bias, out, shared=shared),
        definitions={"ROWS": rows, "DEPTH": depth, "UNITS": units, "WIDE": wide, "SLICES": slices, "PLACES": places})
