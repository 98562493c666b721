import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    chunks = ceil(batch * ((height - 2) // 2) * ((width - 2) // 2), 32)
    groups = ceil(filters, 32)
    tiles = ceil(filters, 8 * groups)
    sms = kw.device.multiprocessors

    def blocks(per):
        return ceil(chunks, per) * groups

    # A block takes `per` chunks of 32 windows, one after the other, if enough blocks are left to hide latency.
    choices = [per for per in range(1, 17) if per == 1 or blocks(per) >= 3 * sms]
    per = min(choices, key=lambda per: ceil(blocks(per), sms) * (2 * per + 1))
    definitions = {
        "BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
        "TILES": tiles, "GROUPS": groups, "CHUNKS": chunks, "PER": per, "RESIDENT": 4 if channels == 1 else 3,
    }
    return kw.plan(kw.launch("conv", blocks(per), 128, x, weight, bias, out), definitions=definitions)
