"""Losses, normalisation, attention and cells."""

import torch
import torch.nn.functional as F

from op_cases import P, R, case


def losses():
    for d in [0, 1, -1]:
        for op in ["softmax", "log_softmax"]:
            case(f"{op}_{d}", op, lambda x: getattr(F, op)(x, d), {"x": R(3, 4, 5) * 3}, {"dim": d})
    case("softmax_scalar", "softmax", lambda x: F.softmax(x, 0), {"x": R()}, {"dim": 0})
    case("softmax_empty", "softmax", lambda x: F.softmax(x, -1), {"x": R(0, 3)}, {"dim": -1})
    case(
        "softmax_large",
        "softmax",
        lambda x: F.softmax(x, -1),
        {"x": torch.tensor([[1000.0, 0.0, -1000.0], [-1e5, -1e5, -1e5]])},
        {"dim": -1},
    )
    case(
        "softmax_masked",
        "softmax",
        lambda x: F.softmax(x, -1),
        {"x": torch.tensor([[0.0, -float("inf"), 1.0], [-float("inf"), 2.0, 1.0]])},
        {"dim": -1},
    )
    case(
        "strided_softmax_1",
        "strided_softmax",
        lambda x: F.softmax(x.permute(2, 0, 1)[..., ::2], 1),
        {"x": R(3, 4, 5)},
        {"dims": [2, 0, 1], "step": 2, "dim": 1},
    )
    for shape, name in [((5, 4), "2d"), ((2, 4, 3), "3d"), ((2, 3, 2, 2), "4d"), ((4,), "1d")]:
        C = shape[1] if len(shape) > 1 else shape[0]
        tshape = (shape[0],) + shape[2:] if len(shape) > 1 else ()
        for red in ["none", "mean", "sum"]:
            for w in [False, True]:
                for ign in [None, 1]:
                    t = torch.randint(0, C, tshape)
                    if ign is not None and t.numel() > 1:
                        t.view(-1)[0] = ign
                    a = {"reduction": red}
                    if ign is not None:
                        a["ignore_index"] = ign
                    i = {"x": R(*shape), "target": t}
                    if w:
                        i["weight"] = P(C)
                    tag = f"{name}_{red}{'_w' if w else ''}{'_i' if ign is not None else ''}"
                    if not (len(shape) == 1 and ign is not None):
                        case(
                            f"nll_{tag}",
                            "nll_loss",
                            lambda x, target, weight=None: F.nll_loss(
                                x,
                                target,
                                weight,
                                ignore_index=ign if ign is not None else -100,
                                reduction=red,
                            ),
                            i,
                            a,
                            fixed=("weight",),
                        )
                    for s in [0.0, 0.2, 1.0]:
                        case(
                            f"ce_{tag}_{s}",
                            "cross_entropy",
                            lambda x, target, weight=None: F.cross_entropy(
                                x,
                                target,
                                weight,
                                ignore_index=ign if ign is not None else -100,
                                reduction=red,
                                label_smoothing=s,
                            ),
                            i,
                            {**a, "label_smoothing": s},
                            fixed=("weight",),
                        )
    for red in ["none", "mean", "sum"]:
        t = torch.full((3,), -100)
        case(
            f"ce_all_ignored_{red}",
            "cross_entropy",
            lambda x, target: F.cross_entropy(x, target, reduction=red),
            {"x": R(3, 4), "target": t},
            {"reduction": red},
            second=False,
        )
        pair = {"x": R(3, 4) * 2, "y": R(3, 4) * 2}
        pair["x"][0, 0] = pair["y"][0, 0]
        case(
            f"mse_{red}",
            "mse_loss",
            lambda x, y: F.mse_loss(x, y, reduction=red),
            pair,
            {"reduction": red},
        )
        case(
            f"l1_{red}",
            "l1_loss",
            lambda x, y: F.l1_loss(x, y, reduction=red),
            pair,
            {"reduction": red},
        )
        for k in [0.5, 1.0, 2.0]:
            case(
                f"huber_{k}_{red}",
                "huber_loss",
                lambda x, y: F.huber_loss(x, y, reduction=red, delta=k),
                pair,
                {"reduction": red, "delta": k},
            )
            case(
                f"smooth_l1_{k}_{red}",
                "smooth_l1_loss",
                lambda x, y: F.smooth_l1_loss(x, y, reduction=red, beta=k),
                pair,
                {"reduction": red, "beta": k},
            )
        case(
            f"smooth_l1_0_{red}",
            "smooth_l1_loss",
            lambda x, y: F.smooth_l1_loss(x, y, reduction=red, beta=0.0),
            pair,
            {"reduction": red, "beta": 0.0},
        )
        for pw in [None, (4,), (3, 4), (1,)]:
            i = {"x": R(3, 4) * 5, "y": torch.rand(3, 4)}
            if pw:
                i["pos_weight"] = P(*pw)
            case(
                f"bce_{red}_{pw}".replace(" ", ""),
                "bce_with_logits",
                lambda x, y, pos_weight=None: F.binary_cross_entropy_with_logits(
                    x, y, pos_weight=pos_weight, reduction=red
                ),
                i,
                {"reduction": red},
                fixed=("pos_weight",),
            )
        case(
            f"bce_large_{red}",
            "bce_with_logits",
            lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=red),
            {
                "x": torch.tensor([-800.0, 800.0, 0.0, -50.0]),
                "y": torch.tensor([1.0, 0.0, 1.0, 0.0]),
            },
            {"reduction": red},
            fixed=("y",),
        )
    for red in ["none", "mean", "sum", "batchmean"]:
        for lt in [False, True]:
            y = F.softmax(R(3, 4), 1)
            case(
                f"kl_{red}_{lt}",
                "kl_div",
                lambda x, y: F.kl_div(x, y, reduction=red, log_target=lt),
                {"x": F.log_softmax(R(3, 4), 1), "y": y.log() if lt else y},
                {"reduction": red, "log_target": lt},
            )
    y = torch.tensor([[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])
    case(
        "kl_zero",
        "kl_div",
        lambda x, y: F.kl_div(x, y, reduction="sum"),
        {"x": F.log_softmax(R(2, 3), 1), "y": y},
        {"reduction": "sum", "log_target": False},
        fixed=("y",),
    )


def norms():
    for shape, ns in [
        ((4, 6), [6]),
        ((2, 3, 4), [3, 4]),
        ((2, 3, 4), [4]),
        ((5,), [5]),
        ((2, 3, 4), [2, 3, 4]),
        ((0, 4), [4]),
    ]:
        for parts in ["", "w", "wb"]:
            i = {"x": R(*shape) * 2 + 1}
            if "w" in parts:
                i["weight"] = R(*ns)
            if "b" in parts:
                i["bias"] = R(*ns)
            case(
                f"ln_{len(shape)}{len(ns)}{shape[0]}_{parts}",
                "layer_norm",
                lambda x, weight=None, bias=None: F.layer_norm(x, ns, weight, bias, 1e-3),
                i,
                {"normalized_shape": ns, "eps": 1e-3},
            )
    for shape in [(4, 6), (2, 3, 5), (5,)]:
        case(
            f"rms_{len(shape)}",
            "rms_norm",
            lambda x, weight: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * weight,
            {"x": R(*shape), "weight": R(shape[-1])},
            {"eps": 1e-5},
        )
    for shape, g in [((2, 6), 3), ((2, 4, 5), 2), ((2, 4, 3, 2), 1), ((2, 4, 3, 2), 4)]:
        case(
            f"gn_{len(shape)}_{g}",
            "group_norm",
            lambda x, weight, bias: F.group_norm(x, g, weight, bias, 1e-5),
            {"x": R(*shape), "weight": R(shape[1]), "bias": R(shape[1])},
            {"num_groups": g, "eps": 1e-5},
        )
    for shape in [(5, 3), (4, 3, 2), (2, 3, 4, 2)]:
        for train in [True, False]:
            for momentum in [0.1, 0.5]:

                def bn(x, running_mean, running_var, weight, bias):
                    m, v = running_mean.clone(), running_var.clone()
                    y = F.batch_norm(x, m, v, weight, bias, train, momentum, 1e-4)
                    return (y, m, v) if train else y

                C = shape[1]
                case(
                    f"bn_{len(shape)}_{train}_{momentum}",
                    "batch_norm",
                    bn,
                    {
                        "x": R(*shape) + 2,
                        "running_mean": R(C),
                        "running_var": P(C),
                        "weight": R(C),
                        "bias": R(C),
                    },
                    {"training": train, "momentum": momentum, "eps": 1e-4},
                    fixed=("running_mean", "running_var"),
                )


def attention():
    def sdpa(q, k, v, mask=None, bias=None, causal=False, scale=None):
        s = q @ k.mT * (scale if scale is not None else q.shape[-1] ** -0.5)
        if bias is not None:
            s = s + bias
        if mask is not None:
            s = s.masked_fill(~mask, -float("inf"))
        if causal:
            keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
            s = s.masked_fill(~keep, -float("inf"))
        return F.softmax(s, -1) @ v

    for n, (q, k, v) in enumerate(
        [
            ((3, 4), (5, 4), (5, 2)),
            ((2, 3, 4), (2, 3, 4), (2, 3, 4)),
            ((2, 2, 5, 3), (2, 2, 3, 3), (2, 2, 3, 4)),
            ((2, 3, 2, 3), (1, 3, 4, 3), (1, 3, 4, 3)),
        ]
    ):
        for causal in [False, True]:
            for scale in [None, 0.3]:
                a = {"is_causal": causal}
                if scale:
                    a["scale"] = scale
                case(
                    f"sdpa_{n}_{causal}_{scale}",
                    "sdpa",
                    lambda q, k, v: sdpa(q, k, v, causal=causal, scale=scale),
                    {"q": R(*q), "k": R(*k), "v": R(*v)},
                    a,
                )
        m = torch.rand(q[-2], k[-2]) > 0.4
        m[:, 0] = True
        case(
            f"sdpa_mask_{n}",
            "sdpa",
            lambda q, k, v, mask: sdpa(q, k, v, mask),
            {"q": R(*q), "k": R(*k), "v": R(*v), "mask": m},
        )
        case(
            f"sdpa_bias_{n}",
            "sdpa",
            lambda q, k, v, bias: sdpa(q, k, v, bias=bias),
            {"q": R(*q), "k": R(*k), "v": R(*v), "bias": R(q[-2], k[-2])},
        )
        case(
            f"sdpa_both_{n}",
            "sdpa",
            lambda q, k, v, mask, bias: sdpa(q, k, v, mask, bias),
            {"q": R(*q), "k": R(*k), "v": R(*v), "mask": m, "bias": R(q[-2], k[-2])},
        )
    for causal in [False, True]:

        def mha(x, wq, bq, wk, bk, wv, bv, wo, bo):
            B, T, C = x.shape
            h = [
                F.linear(x, w, b).view(B, T, 3, C // 3).transpose(1, 2)
                for w, b in [(wq, bq), (wk, bk), (wv, bv)]
            ]
            return F.linear(sdpa(*h, causal=causal).transpose(1, 2).reshape(B, T, C), wo, bo)

        i = {"x": R(2, 4, 6)}
        for n in "qkvo":
            i["w" + n] = R(6, 6)
            i["b" + n] = R(6)
        case(f"mha_{causal}", "mha", mha, i, {"num_heads": 3, "is_causal": causal})

    def weights(g, I=3, H=4):
        return {"w_ih": R(g * H, I), "w_hh": R(g * H, H), "b_ih": R(g * H), "b_hh": R(g * H)}

    for nl in ["tanh", "relu"]:
        f = torch.rnn_tanh_cell if nl == "tanh" else torch.rnn_relu_cell
        case(
            f"rnn_{nl}",
            "rnn_cell",
            lambda x, h, w_ih, w_hh, b_ih, b_hh: f(x, h, w_ih, w_hh, b_ih, b_hh),
            {"x": R(2, 3), "h": R(2, 4), **weights(1)},
            {"nonlinearity": nl},
        )
    case(
        "lstm_cell_1",
        "lstm_cell",
        lambda x, h, c, w_ih, w_hh, b_ih, b_hh: torch.lstm_cell(x, (h, c), w_ih, w_hh, b_ih, b_hh),
        {"x": R(2, 3), "h": R(2, 4), "c": R(2, 4), **weights(4)},
    )
    case(
        "gru_cell_1",
        "gru_cell",
        lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.gru_cell(x, h, w_ih, w_hh, b_ih, b_hh),
        {"x": R(2, 3), "h": R(2, 4), **weights(3)},
    )

    def lstm(x, h, c, w_ih, w_hh, b_ih, b_hh):
        out = []
        for t in x:
            h, c = torch.lstm_cell(t, (h, c), w_ih, w_hh, b_ih, b_hh)
            out.append(h)
        return torch.stack(out), h, c

    case("lstm_4", "lstm", lstm, {"x": R(4, 2, 3), "h": R(2, 4), "c": R(2, 4), **weights(4)})
    case(
        "rosenbrock_5",
        "rosenbrock",
        lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(),
        {"x": R(5)},
    )
    case("sin_x2_3", "sin_x2", lambda x: (torch.sin(x) + x**2 / 10).sum(), {"x": R(3)})
    case(
        "logistic_1",
        "logistic_nll",
        lambda x, w, y: (F.softplus(x @ w) - y * (x @ w)).mean(),
        {"x": R(6, 3), "w": R(3), "y": R(6) > 0},
    )
    case(
        "mlp_1",
        "mlp_loss",
        lambda x, w1, b1, w2, b2, y: F.mse_loss(
            F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2), y
        ),
        {"x": R(4, 3), "w1": R(5, 3), "b1": R(5), "w2": R(2, 5), "b2": R(2), "y": R(4, 2)},
    )
