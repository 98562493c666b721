import kw

def ceil(a, b):
    return -(-a // b)

def widest(size):
    return 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1

def plan(x, gate, up, down, out):
    m, features, inner = x.size(0) * x.size(1), x.size(2), gate.size(0)
    high = 128
    tiles = ceil(m, high)
    steps1, steps2 = ceil(features, 64), ceil(inner, 64)
    across1, across2 = ceil(inner, 64), ceil(features, 128)
    teams = max(1, kw.device.multiprocessors // tiles)
    blocks1 = tiles * min(teams, across1 * steps1)
    blocks2 = tiles * min(teams, across2 * steps2)
    rows = tiles * high
    image1 = kw.scratch("image1", rows * steps1 * 256)
    image2 = kw.scratch("image2", rows * steps2 * 256)
    scale1 = kw.scratch("scale1", rows * 4)
    scale2 = kw.scratch("scale2", rows * 4)
    hidden = kw.scratch("hidden", m * steps2 * 64 * 4)
    parts1 = kw.scratch("parts1", blocks1 * 2 * high * 128 * 4)
    parts2 = kw.scratch("parts2", blocks2 * 2 * high * 128 * 4)
    came1 = kw.workspace("came1", 4 * tiles * across1)
    came2 = kw.workspace("came2", 4 * tiles * across2)
    shared = 2 * 65536 + 2 * 32768 + 1024 + 16
    return kw.plan(
        kw.launch("split_x", rows, 256, x, image1, scale1),
        kw.launch("gate_and_up", blocks1, 256, image1, scale1, gate, up, hidden, parts1, came1, shared=shared, dependent=True),
        kw.launch("split_hidden", rows, 256, hidden, image2, scale2, dependent=True),
        kw.launch("down_again", blocks2, 256, image2, scale2, down, out, parts2, came2, shared=shared, dependent=True),
        definitions={"TOKENS": m, "FEATURES": features, "INNER": inner,
                     "WIDTH1": widest(features), "WIDTH2": widest(inner), "BLOCKS1": blocks1, "BLOCKS2": blocks2})
