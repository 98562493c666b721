import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    pixels = batch * height * width

    def place(p):
        image, rest = divmod(p, height * width)
        return (image * (height + 1) + rest // width) * (width + 1) + rest % width

    best = None
    for across in (2, 4):
        for frags in (4, 3, 2, 1):
            ft, pt = 128 // across, 8 * frags * across
            span = 2 * (width + 1) + 3 + max(place(min(p + pt, pixels) - 1) - place(p) for p in range(0, pixels, pt))
            pitch = span + (8 - span) % 32
            shared = 4 * max(2 * (4 * ft * 76 + 32 * pitch), 4 * ft * (pt + 8))
            if shared > kw.device.shared_per_block:
                continue
            blocks = ceil(filters, ft) * ceil(pixels, pt)
            products, bytes_ = ft * pt * 216 / 500, ft * 304 + span * 32
            work = ceil(channels, 8) * (max(products, bytes_ / 20) + bytes_ / 100)
            cost = ceil(blocks, kw.device.multiprocessors) * (2500 + work)
            if best is None or cost < best[0]:
                best = (cost, across, frags, span, pitch, shared, blocks)
    _, across, frags, span, pitch, shared, blocks = best
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "WARPS_N": across, "FRAGS": frags, "X_SPAN": span, "X_PITCH": pitch}
    return kw.plan(kw.launch("convolve", blocks, 512, x, weight, bias, out, shared=shared), definitions=definitions)
