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


def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    steps_, definitions_ = [], {}
    small_ = ((x.size(0) * x.size(1) * weight.size(0) < 2 ** 24 and weight.size(0) <= 1024) or (x.size(0) <= 8 and weight.size(0) <= x.size(1))) and ((weight.size(0) * x.size(1) * x.size(0) < 2 ** 24 and x.size(0) <= 1024) or (weight.size(0) <= 8 and x.size(0) <= x.size(1))) and (x.size(0) <= 1024)
    definitions_["SMALL"] = int(small_)
    if small_:
        m_0 = x.size(0)
        definitions_["M_0"] = m_0
        n_0 = x.size(1)
        definitions_["N_0"] = n_0
        k_0 = weight.size(0)
        definitions_["K_0"] = k_0
        vector_0 = widest(4, n_0)
        definitions_["VECTOR_0"] = vector_0
        tall_0, broad_0 = sides(m_0, ceil(n_0, (32 * vector_0)), 0, 1)
        definitions_["TALL_0"] = tall_0
        definitions_["BROAD_0"] = broad_0
        deep_0 = ceil(k_0, 8)
        definitions_["DEEP_0"] = deep_0
        team_0 = min(8, power(deep_0))
        definitions_["TEAM_0"] = team_0
        warps_0 = max(team_0, 1)
        definitions_["WARPS_0"] = warps_0
        ahead_0 = min(16, ceil(k_0, team_0))
        definitions_["AHEAD_0"] = ahead_0
        blocks_product_0, threads_product_0 = (ceil(ceil(m_0, tall_0) * ceil(ceil(n_0, (32 * vector_0)), broad_0), warps_0 // team_0)), 32 * warps_0
        definitions_["BLOCKS_product_0"] = blocks_product_0
        definitions_["THREADS_product_0"] = threads_product_0
        m_1 = weight.size(0)
        definitions_["M_1"] = m_1
        n_1 = x.size(1)
        definitions_["N_1"] = n_1
        k_1 = x.size(0)
        definitions_["K_1"] = k_1
        vector_1 = widest(4, n_1)
        definitions_["VECTOR_1"] = vector_1
        tall_1, broad_1 = sides(m_1, ceil(n_1, (32 * vector_1)), 0, 1)
        definitions_["TALL_1"] = tall_1
        definitions_["BROAD_1"] = broad_1
        deep_1 = ceil(k_1, 8)
        definitions_["DEEP_1"] = deep_1
        team_1 = min(8, power(deep_1))
        definitions_["TEAM_1"] = team_1
        warps_1 = max(team_1, 1)
        definitions_["WARPS_1"] = warps_1
        ahead_1 = min(16, ceil(k_1, team_1))
        definitions_["AHEAD_1"] = ahead_1
        blocks_product_1, threads_product_1 = (ceil(ceil(m_1, tall_1) * ceil(ceil(n_1, (32 * vector_1)), broad_1), warps_1 // team_1)), 32 * warps_1
        definitions_["BLOCKS_product_1"] = blocks_product_1
        definitions_["THREADS_product_1"] = threads_product_1
        m_2 = 1
        definitions_["M_2"] = m_2
        n_2 = weight.size(0)
        definitions_["N_2"] = n_2
        k_2 = x.size(0)
        definitions_["K_2"] = k_2
        definitions_["OPERAND_COLS_2"] = weight.size(0)
        vector_2 = widest(4, n_2)
        definitions_["VECTOR_2"] = vector_2
        tall_2, broad_2 = sides(m_2, ceil(n_2, (32 * vector_2)), 1, 1)
        definitions_["TALL_2"] = tall_2
        definitions_["BROAD_2"] = broad_2
        deep_2 = ceil(k_2, 8)
        definitions_["DEEP_2"] = deep_2
        team_2 = min(8, power(deep_2))
        definitions_["TEAM_2"] = team_2
        warps_2 = max(team_2, 1)
        definitions_["WARPS_2"] = warps_2
        ahead_2 = min(16, ceil(k_2, team_2))
        definitions_["AHEAD_2"] = ahead_2
        blocks_product_2, threads_product_2 = (ceil(ceil(m_2, tall_2) * ceil(ceil(n_2, (32 * vector_2)), broad_2), warps_2 // team_2)), 32 * warps_2
        definitions_["BLOCKS_product_2"] = blocks_product_2
        definitions_["THREADS_product_2"] = threads_product_2
        blocks_ = blocks_product_0 + blocks_product_1 + blocks_product_2
        threads_ = max([threads_product_0, threads_product_1, threads_product_2])
        definitions_["THREADS_0"] = threads_
        definitions_["LEAST_0"] = min(1, 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch0", blocks_, threads_, grad_x, grad_out, weight, grad_weight, x, grad_bias, shared=max(0, 4 * warps_0 * tall_0 * (32 * vector_0) if team_0 > 1 else 0, 4 * warps_1 * tall_1 * (32 * vector_1) if team_1 > 1 else 0, 4 * warps_2 * tall_2 * (32 * vector_2) if team_2 > 1 else 0)))
    else:
        m_0 = x.size(0)
        definitions_["M_0"] = m_0
        n_0 = x.size(1)
        definitions_["N_0"] = n_0
        k_0 = weight.size(0)
        definitions_["K_0"] = k_0
        small_0 = int((x.size(0) * x.size(1) * weight.size(0) < 2 ** 24 and weight.size(0) <= 1024) or (x.size(0) <= 8 and weight.size(0) <= x.size(1)))
        definitions_["SMALL_0"] = small_0
        vector_0 = widest(4, n_0)
        definitions_["VECTOR_0"] = vector_0
        tall_0, broad_0 = sides(m_0, ceil(n_0, (32 * vector_0)), 0, 1)
        definitions_["TALL_0"] = tall_0
        definitions_["BROAD_0"] = broad_0
        deep_0 = ceil(k_0, 8)
        definitions_["DEEP_0"] = deep_0
        team_0 = min(8, power(deep_0))
        definitions_["TEAM_0"] = team_0
        warps_0 = max(team_0, 1)
        definitions_["WARPS_0"] = warps_0
        ahead_0 = min(16, ceil(k_0, team_0))
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
        definitions_["RIGHT_WIDTH_0"] = widest(4, n_0)
        parts_0 = kw.scratch("parts_0", 4 * max(1, 2 * streams_0 * high_0 * wide_0))
        arrived_0 = kw.workspace("arrived_0", 4 * pieces_0)
        blocks_product_0, threads_product_0 = (((ceil(ceil(m_0, tall_0) * ceil(ceil(n_0, (32 * vector_0)), broad_0), warps_0 // team_0)) if small_0 else (streams_0 or pieces_0))), ((32 * warps_0) if small_0 else (high_0 * wide_0 // (own_high_0 * own_wide_0) * 32))
        definitions_["BLOCKS_product_0"] = blocks_product_0
        definitions_["THREADS_product_0"] = threads_product_0
        blocks_ = blocks_product_0
        threads_ = max([threads_product_0])
        definitions_["THREADS_0"] = threads_
        definitions_["LEAST_0"] = min(((1) if small_0 else (fit_0)), 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch0", blocks_, threads_, grad_x, grad_out, weight, parts_0, arrived_0, shared=max(0, ((4 * warps_0 * tall_0 * (32 * vector_0) if team_0 > 1 else 0) if small_0 else (4 * 3 * (high_0 * 36 + 32 * (wide_0 + 8)))))))
        m_1 = weight.size(0)
        definitions_["M_1"] = m_1
        n_1 = x.size(1)
        definitions_["N_1"] = n_1
        k_1 = x.size(0)
        definitions_["K_1"] = k_1
        small_1 = int((weight.size(0) * x.size(1) * x.size(0) < 2 ** 24 and x.size(0) <= 1024) or (weight.size(0) <= 8 and x.size(0) <= x.size(1)))
        definitions_["SMALL_1"] = small_1
        vector_1 = widest(4, n_1)
        definitions_["VECTOR_1"] = vector_1
        tall_1, broad_1 = sides(m_1, ceil(n_1, (32 * vector_1)), 0, 1)
        definitions_["TALL_1"] = tall_1
        definitions_["BROAD_1"] = broad_1
        deep_1 = ceil(k_1, 8)
        definitions_["DEEP_1"] = deep_1
        team_1 = min(8, power(deep_1))
        definitions_["TEAM_1"] = team_1
        warps_1 = max(team_1, 1)
        definitions_["WARPS_1"] = warps_1
        ahead_1 = min(16, ceil(k_1, team_1))
        definitions_["AHEAD_1"] = ahead_1
        steps_1 = ceil(k_1, 32)
        high_1, wide_1 = tile_for(m_1, n_1, steps_1)
        own_high_1, own_wide_1, fit_1 = {(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 64): (32, 32, 4)}[high_1, wide_1]
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
        blocks_product_1, threads_product_1 = (((ceil(ceil(m_1, tall_1) * ceil(ceil(n_1, (32 * vector_1)), broad_1), warps_1 // team_1)) if small_1 else (streams_1 or pieces_1))), ((32 * warps_1) if small_1 else (high_1 * wide_1 // (own_high_1 * own_wide_1) * 32))
        definitions_["BLOCKS_product_1"] = blocks_product_1
        definitions_["THREADS_product_1"] = threads_product_1
        blocks_ = blocks_product_1
        threads_ = max([threads_product_1])
        definitions_["THREADS_1"] = threads_
        definitions_["LEAST_1"] = min(((1) if small_1 else (fit_1)), 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch1", blocks_, threads_, grad_weight, grad_out, x, parts_1, arrived_1, shared=max(0, ((4 * warps_1 * tall_1 * (32 * vector_1) if team_1 > 1 else 0) if small_1 else (4 * 3 * (32 * (high_1 + 8) + 32 * (wide_1 + 8))))), dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
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
