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


def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    steps_, definitions_ = [], {}
    m_0 = x.size(0)
    definitions_["M_0"] = m_0
    n_0 = x.size(1)
    definitions_["N_0"] = n_0
    k_0 = weight.size(0)
    definitions_["K_0"] = k_0
    steps_0 = ceil(k_0, 32)
    high_0, wide_0 = tile_for(m_0, n_0, steps_0)
    own_high_0, own_wide_0, fit_0 = {(128, 128): (8, 8, 1), (128, 64): (8, 8, 2), (64, 64): (8, 4, 4)}[high_0, wide_0]
    pieces_0 = ceil(m_0, high_0) * ceil(n_0, wide_0)
    streams_0 = streams(pieces_0, steps_0, 1 * fit_0 * kw.device.multiprocessors)
    definitions_["STREAMS_0"] = streams_0
    definitions_["HIGH_0"] = high_0
    definitions_["WIDE_0"] = wide_0
    definitions_["OWN_HIGH_0"] = own_high_0
    definitions_["OWN_WIDE_0"] = own_wide_0
    definitions_["LEFT_WIDTH_0"] = widest(4, k_0)
    definitions_["RIGHT_WIDTH_0"] = widest(4, n_0)
    parts_0 = kw.scratch("parts_0", 4 * max(1, 2 * streams_0 * high_0 * wide_0))
    arrived_0 = kw.workspace("arrived_0", 4 * pieces_0)
    blocks_product_0, threads_product_0 = (streams_0 or pieces_0), high_0 * wide_0 // (own_high_0 * own_wide_0)
    definitions_["BLOCKS_product_0"] = blocks_product_0
    definitions_["THREADS_product_0"] = threads_product_0
    blocks_ = blocks_product_0
    threads_ = max([threads_product_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(fit_0, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, grad_x, parts_0, arrived_0, grad_out, weight, shared=max(0, 4 * 3 * (high_0 * 36 + 32 * (wide_0 + 8)))))
    m_1 = weight.size(0)
    definitions_["M_1"] = m_1
    n_1 = x.size(1)
    definitions_["N_1"] = n_1
    k_1 = x.size(0)
    definitions_["K_1"] = k_1
    steps_1 = ceil(k_1, 32)
    high_1, wide_1 = tile_for(m_1, n_1, steps_1)
    own_high_1, own_wide_1, fit_1 = {(128, 128): (8, 8, 1), (128, 64): (8, 8, 2), (64, 64): (8, 4, 4)}[high_1, wide_1]
    pieces_1 = ceil(m_1, high_1) * ceil(n_1, wide_1)
    streams_1 = streams(pieces_1, steps_1, 1 * fit_1 * kw.device.multiprocessors)
    definitions_["STREAMS_1"] = streams_1
    definitions_["HIGH_1"] = high_1
    definitions_["WIDE_1"] = wide_1
    definitions_["OWN_HIGH_1"] = own_high_1
    definitions_["OWN_WIDE_1"] = own_wide_1
    definitions_["LEFT_WIDTH_1"] = widest(4, m_1)
    definitions_["RIGHT_WIDTH_1"] = widest(4, n_1)
    parts_1 = kw.scratch("parts_1", 4 * max(1, 2 * streams_1 * high_1 * wide_1))
    arrived_1 = kw.workspace("arrived_1", 4 * pieces_1)
    blocks_product_1, threads_product_1 = (streams_1 or pieces_1), high_1 * wide_1 // (own_high_1 * own_wide_1)
    definitions_["BLOCKS_product_1"] = blocks_product_1
    definitions_["THREADS_product_1"] = threads_product_1
    blocks_ = blocks_product_1
    threads_ = max([threads_product_1])
    definitions_["THREADS_1"] = threads_
    definitions_["LEAST_1"] = min(fit_1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch1", blocks_, threads_, grad_weight, parts_1, arrived_1, grad_out, x, shared=max(0, 4 * 3 * (32 * (high_1 + 8) + 32 * (wide_1 + 8))), dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    rows_2_0, cols_2_0 = x.size(0), weight.size(0)
    width_2_0 = widest(4, cols_2_0)
    team_2_0 = min(256, max(4, power(ceil(cols_2_0, 16))))
    parts_2_0 = 1
    owned_2_0 = False
    solo_2_0 = False
    teams_2_0 = max(1, 128 // team_2_0) if team_2_0 <= 32 else 1
    groups_2_0 = ceil(rows_2_0, teams_2_0)
    groups_2_0 = min(groups_2_0, kw.device.multiprocessors * max(1, 2 * 256 // (team_2_0 * teams_2_0)))
    chunks_2_0 = ceil(cols_2_0, team_2_0 * width_2_0 * parts_2_0)
    definitions_["ROWS_2_0"] = rows_2_0
    definitions_["COLS_2_0"] = cols_2_0
    definitions_["WIDTH_2_0"] = width_2_0
    definitions_["TEAM_2_0"] = team_2_0
    definitions_["PARTS_2_0"] = parts_2_0
    definitions_["TEAMS_2_0"] = teams_2_0
    definitions_["CHUNKS_2_0"] = chunks_2_0
    definitions_["INDEX_2_0"] = 'int' if rows_2_0 * cols_2_0 < 2 ** 31 else 'long long'
    each_2_0, threads_2_0 = chunks_2_0 * width_2_0, team_2_0 * teams_2_0
    only_2_0 = rows_2_0 == 1
    definitions_["ONLY_2_0"] = int(only_2_0)
    summed_2_0 = int(not only_2_0 and 1 * each_2_0 <= (64 if parts_2_0 == 1 else 0))
    definitions_["COLUMNS_2_0"] = summed_2_0
    partial_2_1 = kw.scratch("partial_2_1", 4 * (cols_2_0 * groups_2_0 * teams_2_0 if not (only_2_0 or owned_2_0) else 1))
    blocks_rows_2_0, threads_rows_2_0 = (groups_2_0 * parts_2_0 if not owned_2_0 else 0), team_2_0 * teams_2_0
    definitions_["BLOCKS_rows_2_0"] = blocks_rows_2_0
    definitions_["THREADS_rows_2_0"] = threads_rows_2_0
    blocks_ = blocks_rows_2_0
    threads_ = max([threads_rows_2_0])
    definitions_["THREADS_2"] = threads_
    definitions_["LEAST_2"] = min(max(1, 0 // threads_2_0), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch2", blocks_, threads_, partial_2_1, grad_out, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    columns_2_0 = weight.size(0)
    definitions_["JOINED_2_0"] = columns_2_0
    sharing_2_0 = min(8, power(groups_2_0 * teams_2_0))
    definitions_["SHARING_2_0"] = sharing_2_0
    definitions_["PARTIALS_2_0"] = groups_2_0 * teams_2_0
    blocks_columns_2_0, threads_columns_2_0 = (ceil(columns_2_0, 256 // sharing_2_0) if not (only_2_0 or owned_2_0) else 0), 256
    definitions_["BLOCKS_columns_2_0"] = blocks_columns_2_0
    definitions_["THREADS_columns_2_0"] = threads_columns_2_0
    blocks_ = blocks_columns_2_0
    threads_ = max([threads_columns_2_0])
    definitions_["THREADS_3"] = threads_
    definitions_["LEAST_3"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch3", blocks_, threads_, partial_2_1, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    return kw.plan(*steps_, definitions=definitions_)
