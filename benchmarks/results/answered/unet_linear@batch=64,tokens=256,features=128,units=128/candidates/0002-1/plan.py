import math

import kw


def ceil(a, b):
    return -(-a // b)


def power(value):
    return 1 << max(0, math.ceil(math.log2(max(1, value))))


def literal(value):
    if isinstance(value, bool) or isinstance(value, int):
        return str(int(value))
    if value != value:
        return "__int_as_float(0x7fc00000)"
    if abs(value) == math.inf:
        return "INF" if value > 0 else "(-INF)"
    return f"{value!r}f" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0f"


def widest(wanted, size):
    while size % wanted:
        wanted //= 2
    return wanted


def kept(arrays, cols, width, team, parts, registers, shared, teams=1):
    # Of arrays with the share of a row that a thread has: how many lie in shared memory, in how many bytes.
    chunks = ceil(cols, team * width * parts)
    outside = max(0, arrays - registers // (chunks * width))
    size = 4 * outside * team * teams * chunks * width
    return (outside, size) if registers and size <= shared else None


def sides(rows, cols, tall, broad):
    # Of what is not given: where loads are used most often, with a warp left for nearly every multiprocessor.
    talls = [tall] if tall else [side for side in (8, 4, 2, 1) if side < 2 * rows]
    broads = [broad] if broad else [side for side in (8, 4, 2, 1) if side < 2 * cols]
    choices = sorted(((t, b) for t in talls for b in broads), key=lambda one: one[0] * one[1] / (one[0] + one[1]))
    enough = 0.9 * kw.device.multiprocessors
    return next((one for one in reversed(choices) if ceil(rows, one[0]) * ceil(cols, one[1]) >= enough), choices[0])


def tile_for(rows, cols, steps):
    # The largest that is not mostly empty, with tiles for all multiprocessors or a depth to share.
    if rows > 64 and cols > 64 and steps >= 16 and 8 * ceil(rows, 128) * ceil(cols, 128) >= kw.device.multiprocessors:
        return 128, 128
    return (128, 64) if rows > 64 and ceil(rows, 128) * ceil(cols, 64) >= kw.device.multiprocessors else (64, 64)


def streams(tiles, steps, room):
    # Blocks that share the steps of all tiles; none where tiles come out even or are done in a few steps. One block
    # adds up a tile, so not too many share it.
    waves = tiles / room if room else 1
    return 0 if steps < 8 or waves > 0.9 * math.ceil(waves) else min(room, tiles * min(32, steps // 4))


def plan(x, weight, bias, out):
    steps_, definitions_ = [], {}
    m_0 = x.size(0) * x.size(1)
    definitions_["M_0"] = m_0
    n_0 = weight.size(0)
    definitions_["N_0"] = n_0
    k_0 = x.size(2)
    definitions_["K_0"] = k_0
    definitions_["NUMBER_0_2"] = literal(float(1))
    small_0 = int(x.size(0) * x.size(1) * weight.size(0) * x.size(2) < 2 ** 24 or min(x.size(0) * x.size(1), weight.size(0)) <= 8)
    definitions_["SMALL_0"] = small_0
    vector_0 = widest(4, k_0)
    definitions_["VECTOR_0"] = vector_0
    tall_0, broad_0 = sides(m_0, n_0, 0, 0)
    definitions_["TALL_0"] = tall_0
    definitions_["BROAD_0"] = broad_0
    deep_0 = ceil(k_0, (32 * vector_0))
    definitions_["DEEP_0"] = deep_0
    team_0 = min(8, power(deep_0))
    definitions_["TEAM_0"] = team_0
    warps_0 = max(team_0, 1)
    definitions_["WARPS_0"] = warps_0
    ahead_0 = min(4, ceil(deep_0, team_0))
    definitions_["AHEAD_0"] = ahead_0
    steps_0 = ceil(k_0, 32)
    high_0, wide_0 = tile_for(m_0, n_0, steps_0)
    own_high_0, own_wide_0, fit_0 = {(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 64): (32, 32, 4)}[high_0, wide_0]
    pieces_0 = ceil(m_0, high_0) * ceil(n_0, wide_0)
    streams_0 = streams(pieces_0, steps_0, 1 * fit_0 * kw.device.multiprocessors)
    definitions_["STREAMS_0"] = streams_0
    definitions_["HIGH_0"] = high_0
    definitions_["WIDE_0"] = wide_0
    definitions_["OWN_HIGH_0"] = own_high_0
    definitions_["OWN_WIDE_0"] = own_wide_0
    definitions_["LEFT_WIDTH_0"] = widest(4, k_0)
    definitions_["RIGHT_WIDTH_0"] = widest(4, k_0)
    parts_0 = kw.scratch("parts_0", 4 * max(1, 2 * streams_0 * high_0 * wide_0))
    arrived_0 = kw.workspace("arrived_0", 4 * pieces_0)
    blocks_product_0, threads_product_0 = (((ceil(ceil(m_0, tall_0) * ceil(n_0, broad_0), warps_0 // team_0)) if small_0 else (streams_0 or pieces_0))), ((32 * warps_0) if small_0 else (high_0 * wide_0 // (own_high_0 * own_wide_0) * 32))
    definitions_["BLOCKS_product_0"] = blocks_product_0
    definitions_["THREADS_product_0"] = threads_product_0
    blocks_ = blocks_product_0
    threads_ = max([threads_product_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(((1) if small_0 else (fit_0)), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, bias, out, x, weight, parts_0, arrived_0, shared=max(0, ((4 * warps_0 * tall_0 * broad_0 if team_0 > 1 else 0) if small_0 else (4 * 3 * (high_0 * 36 + wide_0 * 36))))))
    return kw.plan(*steps_, definitions=definitions_)
