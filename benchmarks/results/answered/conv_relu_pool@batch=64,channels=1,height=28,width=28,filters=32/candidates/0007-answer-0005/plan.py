import kw

REHEARSE = 1  # tunable: REHEARSE = 1, 0

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    down, across = (height - 2) // 2, (width - 2) // 2
    sms = kw.device.multiprocessors
    words = channels * (32 if width % 2 == 0 else 64)

    def choice(parts, teams, cuts):
        # Warps of the fullest scheduler, times what one of them issues or what the loads from shared memory take.
        rows, group = ceil(down, parts), ceil(filters, teams * cuts)
        warps = ceil(ceil(rows * across, 2) * teams, 32)
        bands, slices = ceil(down, rows), ceil(filters, teams * group)
        blocks = batch * bands * slices
        copies = 10 * ceil(channels * (2 * rows + 2) * width, 128 * warps) + 14 * ceil(channels * 9 * teams * group, 32 * warps)
        turn = max(80 + words + copies + group * (75 * channels + 11), 4 * (words + group * (12 * channels + 4)))
        deep = ceil(ceil(blocks, sms) * warps, 4)
        return deep * turn + 40 * group // deep, blocks, warps, rows, bands, teams, group, slices

    choices = [choice(parts, teams, cuts) for parts in range(1, 9) for teams in range(1, 9) for cuts in range(1, 9)]
    _, blocks, warps, rows, bands, teams, group, slices = min(one for one in choices if one[2] <= 12)
    definitions = {
        "BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters, "THREADS": 32 * warps,
        "ROWS": rows, "BANDS": bands, "TEAMS": teams, "GROUP": group, "SLICES": slices,
    }
    segment = ((2 * rows + 2) * width + 6) // 4 * 4
    shared = 4 * (channels * segment + teams * group * channels * 12 + 4 * width)
    first = 0 if REHEARSE and blocks * warps <= 24 * sms else 1
    return kw.plan(
        kw.launch("conv", blocks, 32 * warps, x, weight, bias, out, kw.i32(first), shared=shared), definitions=definitions)
