import kw

FRAGS = 2  # tunable: FRAGS = 2, 4

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    down, across = ceil(height, 2), ceil(width, 2)
    tiles = batch * down * across

    def place(tile):
        row = tile // across
        return (row // down * (height + 1) + row % down * 2) * (width + 1) + tile % across * 2

    frags = FRAGS
    while frags > 1 and ceil(filters, 32) * ceil(tiles, 8 * frags) < kw.device.multiprocessors:
        frags //= 2
    tt = 8 * frags
    span = 3 * (width + 1) + 4 + max(place(min(t + tt, tiles) - 1) - place(t) for t in range(0, tiles, tt))
    pitch = span + (9 - span) % 32
    shared = 4 * max(16 * 520 + 16 * (16 * tt + 8) + 32 * 148 + 16 * pitch, 512 * (tt + 8))
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "FRAGS": frags, "X_SPAN": span, "X_PITCH": pitch}
    blocks = ceil(filters, 32) * ceil(tiles, tt)
    return kw.plan(kw.launch("convolve", blocks, 256, x, weight, bias, out, shared=shared), definitions=definitions)
