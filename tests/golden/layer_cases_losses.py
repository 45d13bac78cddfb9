"""Cases of losses and distances for layer_cases.py."""

import torch

LAST = [-1]  # the target
REDUCTIONS = ["mean", "sum", "none"]


def R(*shape):
    return torch.randn(shape, dtype=torch.float64)


def share(*shape):
    return torch.rand(shape, dtype=torch.float64) * 0.9 + 0.05


def signs(*shape):
    return (torch.rand(shape) > 0.5).double() * 2 - 1


def losses(add):
    of_numbers(add)
    of_classes(add)
    of_probabilities(add)
    of_margins(add)


def of_numbers(add):
    x, y = R(2, 3), R(2, 3)
    for layer in ["MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss"]:
        for reduction in REDUCTIONS:
            add(layer, dict(reduction=reduction), x, y)
    add("HuberLoss", dict(delta=0.4), x, y)
    add("SmoothL1Loss", dict(beta=0.4), x, y)
    add("SmoothL1Loss", dict(beta=0.0), x, y)
    counts = torch.tensor([[0.5, 0.8, 2.0], [3.0, 1.5, 4.0]], dtype=torch.float64)
    add("PoissonNLLLoss", {}, x, counts)
    add("PoissonNLLLoss", dict(log_input=False, full=True, reduction="sum"), share(2, 3), counts)
    add("GaussianNLLLoss", {}, x, y, share(2, 3))
    add("GaussianNLLLoss", dict(full=True, eps=0.3, reduction="none"), x, y, share(2, 1),
        smooth=False)


def of_classes(add):
    x, x4 = R(4, 3), R(2, 3, 2, 2)
    y, y4 = torch.tensor([2, 0, 1, 2]), torch.tensor([[[0, 2], [1, 1]], [[2, 2], [0, 1]]])
    weight = [0.5, 2.0, 1.25]
    for layer in ["CrossEntropyLoss", "NLLLoss"]:
        for reduction in REDUCTIONS:
            add(layer, dict(reduction=reduction), x, y)
            add(layer, dict(reduction=reduction, weight=weight, ignore_index=1), x4, y4)
        add(layer, {}, x[0], y[0])
    for reduction in REDUCTIONS:
        add("CrossEntropyLoss", dict(reduction=reduction, weight=weight, label_smoothing=0.2,
                                     ignore_index=2), x, y)
        probabilities = torch.softmax(R(4, 3), 1)
        add("CrossEntropyLoss", dict(reduction=reduction), x, probabilities)
        add("CrossEntropyLoss", dict(reduction=reduction, weight=weight, label_smoothing=0.2), x4,
            torch.softmax(R(2, 3, 2, 2), 1))
    add("CrossEntropyLoss", {}, x[0], torch.softmax(R(3), 0))


def of_probabilities(add):
    x, y, weight = R(2, 3), share(2, 3), [0.5, 2.0, 1.25]
    for reduction in REDUCTIONS:
        add("BCELoss", dict(reduction=reduction), share(2, 3), y)
        add("BCEWithLogitsLoss", dict(reduction=reduction), x, y)
    add("BCELoss", dict(weight=weight), share(2, 3), y)
    add("BCEWithLogitsLoss", dict(weight=weight), x, y)
    add("BCEWithLogitsLoss", dict(weight=weight, pos_weight=weight, reduction="sum"), x, y)
    x = torch.log_softmax(x, 1)
    for reduction in REDUCTIONS + ["batchmean"]:
        add("KLDivLoss", dict(reduction=reduction), x, y)
        add("KLDivLoss", dict(reduction=reduction, log_target=True), x, y.log())


def of_margins(add):
    a, b, c = R(3, 4), R(3, 4), R(3, 4)
    for reduction in REDUCTIONS:
        add("HingeEmbeddingLoss", dict(reduction=reduction), a, signs(3, 4), fixed=LAST)
        add("SoftMarginLoss", dict(reduction=reduction), a, signs(3, 4), fixed=LAST)
        add("MultiMarginLoss", dict(reduction=reduction), a, torch.tensor([3, 0, 1]))
        add("MultiLabelSoftMarginLoss", dict(reduction=reduction), a, share(3, 4))
        add("MarginRankingLoss", dict(reduction=reduction, margin=0.3), a, b, signs(3, 4), fixed=LAST)
        add("CosineEmbeddingLoss", dict(reduction=reduction), a, b, signs(3), fixed=LAST)
        add("TripletMarginLoss", dict(reduction=reduction), a, b, c)
    add("HingeEmbeddingLoss", dict(margin=0.4), a, signs(3, 4), fixed=LAST)
    add("MultiMarginLoss", dict(p=2, margin=0.7, weight=[0.5, 2.0, 1.25, 1.0]), a,
        torch.tensor([3, 0, 1]))
    add("MultiMarginLoss", {}, a[0], torch.tensor(2))
    add("MultiLabelSoftMarginLoss", dict(weight=[0.5, 2.0, 1.25, 1.0]), a, share(3, 4))
    add("CosineEmbeddingLoss", dict(margin=-0.5), a[0], b[0], signs(), fixed=LAST)
    add("TripletMarginLoss", dict(margin=2.0, p=3.0, swap=True), a, b, c)
    add("CosineSimilarity", {}, a, b)
    add("CosineSimilarity", dict(dim=0, eps=1e-4), a, b)
    add("PairwiseDistance", {}, a, b)
    add("PairwiseDistance", dict(p=1.0, keepdim=True), a, b)
