import kw

THREADS = 128  # tunable: THREADS = 128, 64, 256

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.size(0), x.size(1), x.size(2), x.size(3)
    filters = weight.size(0)
    groups = ceil(filters, 4)
    tiles = ceil(batch * ((height - 2) // 2) * ((width - 2) // 2), THREADS)
    # Blocks a multiprocessor that registers must leave room for: 36 weights a thread, or 72.
    least = max(1, (768 if channels == 1 else 384) // THREADS)
    # One wave of blocks; each takes every lanes-th tile, all of them about as many.
    lanes = max(1, kw.device.multiprocessors * least // groups)
    lanes = ceil(tiles, ceil(tiles, lanes))
    definitions = {
        "BATCH_N": batch, "CHANNELS_N": channels, "HEIGHT_N": height, "WIDTH_N": width, "FILTERS_N": filters,
        "THREADS_N": THREADS, "LEAST_N": least, "TILES_N": tiles, "LANES_N": lanes,
    }
    return kw.plan(kw.launch("launch0", lanes * groups, THREADS, x, weight, bias, out), definitions=definitions)
