import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    pixels = batch * height * width
    pitch = width + 1
    while not 10 <= pitch % 32 <= 22:  # neighbouring rows in different banks
        pitch += 1

    def place(p):
        image, rest = divmod(p, height * width)
        return (image * (height + 1) + rest // width) * pitch + rest % width

    span = 2 * pitch + 3 + max(place(min(p + 128, pixels) - 1) - place(p) for p in range(0, pixels, 128))
    x_pitch = span + (2 * pitch + 16 - span) % 32
    f_tiles = ceil(filters, 64)
    n = ceil(ceil(filters, f_tiles), 8) * 8
    tiles = f_tiles * ceil(pixels, 128)
    best = None
    for parts in (1, 2, 4):
        steps = ceil(ceil(channels, 8), parts)
        cost = ceil(tiles * parts, kw.device.multiprocessors) * (3000 + 300 * parts + steps * (27 * n + 300))
        if best is None or cost < best[0]:
            best = (cost, parts)
    parts = best[1]
    shared = 4 * 2 * (144 * n + 8 * x_pitch)
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "PITCH": pitch, "X_SPAN": span, "X_PITCH": x_pitch, "K_SPLIT": parts, "N_TILE": n, "N_FRAGS": n // 8}
    for i in range(5):
        definitions["OPERAND%d" % i] = n // 2 + i
    cluster = (parts, 1, 1) if parts > 1 else None
    return kw.plan(kw.launch("convolve", tiles * parts, 256, x, weight, bias, out, shared=shared, cluster=cluster),
                   definitions=definitions)
