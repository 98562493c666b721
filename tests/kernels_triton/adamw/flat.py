"""One step of AdamW, in place."""

import triton
import triton.language as tl


@triton.jit
def step_kernel(
    param, grad, first, second, count, rest1, beta2, rest2, eps, decay, step_size, correction, BLOCK: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    g = tl.load(grad + at, mask=mask)
    m = tl.load(first + at, mask=mask)
    v = tl.load(second + at, mask=mask)
    m = m + (g - m) * rest1
    v = v * beta2 + g * g * rest2
    p = tl.load(param + at, mask=mask) * decay
    p -= step_size * m / (tl.sqrt_rn(v * correction) + eps)
    tl.store(param + at, p, mask=mask)
    tl.store(first + at, m, mask=mask)
    tl.store(second + at, v, mask=mask)


def forward(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, step):
    count = param.numel()
    step_kernel[(triton.cdiv(count, 1024),)](
        *(param, grad, exp_avg, exp_avg_sq, count, 1 - beta1, beta2, 1 - beta2, eps),
        *(1 - lr * weight_decay, lr / (1 - beta1**step), 1 / (1 - beta2**step)),
        BLOCK=1024,
    )
