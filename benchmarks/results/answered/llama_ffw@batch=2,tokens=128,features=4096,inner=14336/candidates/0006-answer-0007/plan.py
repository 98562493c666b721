import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, gate, up, down, out):
    count, features, inner = x.shape[0] * x.shape[1], x.shape[2], gate.shape[0]
    # Tokens: as few tiles of at most 256 as hold them, each in up to four parts of 40 to 64.
    tiles = ceil(count, 256)
    each = ceil(count, tiles)
    parts = ceil(each, 64)
    part = max(40, 8 * ceil(ceil(each, parts), 8))
    tile = parts * part
    stage = 256 * tile + 128 * 68 * 4
    stages = max(2, min(4, (kw.device.shared_per_block - 2048) // stage))
    shared = stages * (stage + 32) + 1024
    steps_1, steps_2 = ceil(features, 64), ceil(inner, 64)
    down_1, down_2 = steps_2, ceil(features, 128)
    groups = max(1, kw.device.multiprocessors // tiles)
    units_1, units_2, blocks, slot = down_1, down_2, groups * tiles, tiles * 128 * tile * 4
    cluster = None
    images_1 = kw.scratch("images_1", tiles * steps_1 * tile * 256)
    images_2 = kw.scratch("images_2", tiles * steps_2 * tile * 256)
    factors_1 = kw.scratch("factors_1", 4 * tiles * steps_1)
    factors_2 = kw.scratch("factors_2", 4 * tiles * steps_2)
    slots_1 = kw.scratch("slots_1", (units_1 + groups) * slot)
    slots_2 = kw.scratch("slots_2", (units_2 + groups) * slot)
    return kw.plan(
        kw.launch("split_x", tiles * steps_1, 512, x, images_1, factors_1),
        kw.launch("gemm_up", blocks, 288, gate, up, images_1, factors_1, slots_1,
                  shared=shared, cluster=cluster, dependent=True),
        kw.launch("join_up", down_1 * tiles, 512, slots_1, images_2, factors_2,
                  shared=tile * 256, dependent=True),
        kw.launch("gemm_down", blocks, 288, down, images_2, factors_2, slots_2,
                  shared=shared, cluster=cluster, dependent=True),
        kw.launch("join_down", down_2 * tiles * ceil(tile // 8, 4), 256, slots_2, out, dependent=True),
        definitions={
            "FFW_COUNT": count, "FFW_FEATURES": features, "FFW_INNER": inner, "FFW_PART": part, "FFW_PARTS": parts,
            "FFW_TILES": tiles, "FFW_GROUPS": groups, "FFW_STAGES": stages,
        })
