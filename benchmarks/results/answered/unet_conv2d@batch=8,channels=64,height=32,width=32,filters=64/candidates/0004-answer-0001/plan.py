import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    runs = ceil(width, 4)
    total = batch * height * runs

    def padded_row(run):
        return run // runs + run // runs // height

    best = None
    for groups in (16, 8):
        for tr, speed in ((4, 0.75), (2, 0.6), (1, 0.4)):
            ft, rt = 4 * groups, 2 * (32 // groups) * tr
            rows = 3 + max(padded_row(min(r + rt, total) - 1) - padded_row(r) for r in range(0, total, rt))
            stage = 72 * (ft + 4) + 8 * rows * (4 * runs + 4)
            shared = 4 * max(2 * stage, 4 * ft * 4 * rt)
            if shared > kw.device.shared_per_block:
                continue
            blocks = ceil(filters, ft) * ceil(total, rt)
            cost = ceil(blocks, kw.device.multiprocessors) * (2000 + channels * 9 * ft * 4 * rt / 128 / speed)
            if best is None or cost < best[0]:
                best = (cost, groups, tr, rows, shared, blocks)
    _, groups, tr, rows, shared, blocks = best
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "F_GROUPS": groups, "TR": tr, "X_ROWS": rows}
    return kw.plan(kw.launch("convolve", blocks, 256, x, weight, bias, out, shared=shared), definitions=definitions)
