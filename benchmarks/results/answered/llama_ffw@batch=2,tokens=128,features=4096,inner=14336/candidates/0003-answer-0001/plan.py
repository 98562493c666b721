import kw

def ceil(a, b):
    return -(-a // b)

def widest(size):
    return 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1

def plan(x, gate, up, down, out):
    m, features, inner = x.size(0) * x.size(1), x.size(2), gate.size(0)
    # Tiles of 256 rows use what they load more often; those of 128 leave fewer rows empty.
    units = 2 if 2.0 * ceil(m, 256) <= 1.2 * ceil(m, 128) else 1
    stages = 2 if units == 2 else 3
    high = 128 * units
    tiles = ceil(m, high)
    steps1, steps2 = ceil(features, 32), ceil(inner, 32)
    across1, across2 = ceil(inner, 64), ceil(features, 128)
    teams = max(1, kw.device.multiprocessors // tiles)
    blocks1 = tiles * min(teams, across1 * steps1)
    blocks2 = tiles * min(teams, across2 * steps2)
    rows = tiles * high
    image1 = kw.scratch("image1", rows * steps1 * 256)
    image2 = kw.scratch("image2", rows * steps2 * 256)
    hidden = kw.scratch("hidden", m * ceil(inner, 64) * 64 * 4)
    parts1 = kw.scratch("parts1", blocks1 * 2 * high * 128 * 4)
    parts2 = kw.scratch("parts2", blocks2 * 2 * high * 128 * 4)
    came1 = kw.workspace("came1", 4 * tiles * across1)
    came2 = kw.workspace("came2", 4 * tiles * across2)
    shared = stages * (high * 256 + 32768) + 32768 + 64 + 1024
    return kw.plan(
        kw.launch("split_x", rows, 256, x, image1),
        kw.launch("gate_and_up", blocks1, 384, image1, gate, up, hidden, parts1, came1, shared=shared, dependent=True),
        kw.launch("split_hidden", rows, 256, hidden, image2, dependent=True),
        kw.launch("down_again", blocks2, 384, image2, down, out, parts2, came2, shared=shared, dependent=True),
        definitions={"TOKENS": m, "FEATURES": features, "INNER": inner, "UNITS": units, "STAGES": stages,
                     "WIDTH1": widest(features), "WIDTH2": widest(inner), "BLOCKS1": blocks1, "BLOCKS2": blocks2})
