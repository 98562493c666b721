import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    places = (batch * (height + 1) - 1) * (width + 1) - 1
    stages, ftiles = ceil(channels, 16), ceil(filters, 64)
    best = None
    for n in range(128, 31, -8):
        px = n + 2 * (width + 1) + 2
        shared = 4 * 3 * (32 * px + 9216)
        if shared + 2048 > kw.device.shared_per_block:
            continue
        tiles = ceil(places, n)
        cost = ceil(ftiles * tiles, kw.device.multiprocessors) * (3000 + stages * (27 * n + 300))
        if best is None or cost < best[0]:
            best = (cost, n, shared, tiles)
    _, n, shared, tiles = best
    line = tiles * n + 2 * (width + 1) + 2
    lines = kw.scratch("lines", stages * 4 * 2 * line * 16)
    fragments = kw.scratch("fragments", ftiles * stages * 9216 * 4)
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "N_TILE": n, "N_FRAGS": n // 8, "TILES": tiles}
    for i in range(5):
        definitions["OPERAND%d" % i] = n // 2 + i
    first = ceil(line, 256) * stages * 4 + ceil(ftiles * stages * 2304, 256)
    return kw.plan(kw.launch("prepare", first, 256, x, weight, lines, fragments),
                   kw.launch("convolve", ftiles * tiles, 256, lines, fragments, bias, out, shared=shared, dependent=True),
                   definitions=definitions)
