import kw

TEAMS = 2  # tunable: TEAMS = 2, 4, 3

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    chunks = ceil(batch * ((height - 2) // 2) * ((width - 2) // 2), 64)
    lines = channels * (80 if width % 2 == 0 else 160)

    def cost(slices):
        # Warps of the fullest scheduler, times what one of them issues or what its loads take.
        group = ceil(filters, TEAMS * slices)
        warps = ceil(ceil(chunks * slices, kw.device.multiprocessors) * TEAMS, 4)
        return warps * max(120 + 32 * channels + group * (75 * channels + 11), 4 * (lines + group * (12 * channels + 4)))

    group = ceil(filters, TEAMS * min(range(1, 33), key=cost))
    slices = ceil(filters, TEAMS * group)
    definitions = {
        "BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
        "TEAMS": TEAMS, "GROUP": group, "SLICES": slices,
    }
    return kw.plan(kw.launch("conv", chunks * slices, 32 * TEAMS, x, weight, bias, out), definitions=definitions)
