import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    places = (batch * (height + 1) - 1) * (width + 1) - 1
    best = None
    for n in range(128, 31, -8):
        px = n + 2 * (width + 1) + 2
        shared = 4 * 2 * (32 * px + 2 * 64 * 76)
        if shared > kw.device.shared_per_block:
            continue
        blocks = ceil(filters, 64) * ceil(places, n)
        cost = ceil(blocks, kw.device.multiprocessors) * (3000 + ceil(channels, 16) * (27 * n + 400))
        if best is None or cost < best[0]:
            best = (cost, n, shared, blocks)
    _, n, shared, blocks = best
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "N_TILE": n, "N_FRAGS": n // 8}
    for i in range(5):
        definitions["OPERAND%d" % i] = n // 2 + i
    return kw.plan(kw.launch("convolve", blocks, 256, x, weight, bias, out, shared=shared), definitions=definitions)
