import kw

THREADS = 256  # tunable: THREADS = 128, 256
MANY = 1  # tunable: MANY = 0, 1, 2
UNROLL = 4  # tunable: UNROLL = 2, 1, 4

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.size(0), x.size(1), x.size(2), x.size(3)
    filters = weight.size(0)
    total = batch * ((height - 2) // 2) * ((width - 2) // 2)
    loads = 8 * channels if width % 2 == 0 else 16 * channels
    best = None
    for many in ((1, 2) if MANY == 0 else (MANY,)):
        tiles = ceil(total, THREADS * many)
        for groups in range(1, filters + 1):
            each = ceil(filters, groups)
            if ceil(filters, each) != groups:
                continue
            # Instructions that the busiest scheduler issues, and what its few warps cannot hide.
            warps = ceil(ceil(tiles * groups, kw.device.multiprocessors) * THREADS, 128)
            once = 90 + many * (30 + loads) + 8 * ceil(each * 9 * channels, THREADS)
            every = many * (36 * channels + 5) + ceil(9 * channels + 1, 4) + 3
            time = warps * (once + each * every) + 40 * each / (warps * warps)
            if best is None or time < best[0]:
                best = (time, many, each, groups, tiles)
    time, many, each, groups, tiles = best
    definitions = {
        "BATCH_N": batch, "CHANNELS_N": channels, "HEIGHT_N": height, "WIDTH_N": width, "FILTERS_N": filters,
        "THREADS_N": THREADS, "LEAST_N": max(1, 512 // THREADS), "MANY_N": many, "EACH_N": each, "UNROLL_N": UNROLL,
    }
    return kw.plan(kw.launch("launch0", tiles * groups, THREADS, x, weight, bias, out), definitions=definitions)
