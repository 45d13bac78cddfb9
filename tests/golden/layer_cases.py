"""The layers that are compared with PyTorch: a case is a class of torch.nn, its arguments and inputs.

make_layers.py writes the cases of `small` for the test that needs no Python; tests/peers/layers runs
all. A case's arguments are torch.nn's keyword arguments; tests/nn/golden/golden_*.cpp reads the same names.
"""

import torch
from torch import nn

import layer_cases_losses
import layer_cases_sequences
import layer_cases_windows

# Layers that are not called as layer(*inputs).
CALLS = dict(layer_cases_sequences.CALLS)
# Offsets are integers, factors of the rows are not.
CALLS["EmbeddingBag"] = lambda m, x, second=None: (
    m(x, per_sample_weights=second) if second is not None and second.is_floating_point() else m(x, second)
)
TENSOR_ARGUMENTS = ("weight", "pos_weight", "_random_samples")


class Case:
    def __init__(
        self, layer, args, inputs, train=True, calls=1, call=None, fixed=(), smooth=True, tol=1e-11
    ):
        self.layer, self.args, self.inputs = layer, args, inputs
        self.train, self.calls, self.call = train, calls, call or {}
        self.fixed = [i % len(inputs) for i in fixed]  # numbers of the inputs whose gradients nobody wants
        self.smooth = smooth  # False: the gradient is by agreement not that of the value
        self.tol = tol  # doubles, some hundred operations of size 1
        self.name = ""

    def build(self):
        """A fresh layer in double precision, in the case's mode."""
        args = {
            key: torch.tensor(value, dtype=torch.float64) if key in TENSOR_ARGUMENTS else value
            for key, value in self.args.items()
        }
        return getattr(nn, self.layer)(**args).double().train(self.train)

    def describe(self):
        """What the other side needs to build and call the layer."""
        layer = self.build()
        return {
            "name": self.name,
            "layer": self.layer,
            "args": self.args,
            "train": self.train,
            "calls": self.calls,
            "call": self.call,
            "inputs": len(self.inputs),
            "fixed": self.fixed,
            "smooth": self.smooth,
            "tol": self.tol,
            "keys": list(layer.state_dict()),
            "repr": repr(layer),
        }

    def run(self, layer, inputs, grad_outputs=None):
        """Outputs, the gradients given to them, those of inputs and parameters, and the state after."""
        args = [x.clone() for x in inputs]
        for i, x in enumerate(args):
            x.requires_grad_(x.is_floating_point() and i not in self.fixed)
        for _ in range(self.calls):
            call = CALLS.get(self.layer, lambda m, *xs, **options: m(*xs, **options))
            outputs = flat(call(layer, *args, **self.call))
        smooth = [y for y in outputs if y.requires_grad]
        if grad_outputs is None:
            grad_outputs = [torch.randn_like(y) for y in smooth]
        named = dict(layer.named_parameters())
        wanted = [x for x in args if x.requires_grad] + list(named.values())
        grads = torch.autograd.grad(smooth, wanted, grad_outputs, allow_unused=True)
        result = {f"o{i}": y.detach() for i, y in enumerate(outputs)}
        result |= {f"g{i}": g for i, g in enumerate(grad_outputs)}
        names = [f"di{i}" for i, x in enumerate(args) if x.requires_grad]
        names += [f"dp.{name}" for name in named]
        result |= {name: g for name, g in zip(names, grads) if g is not None}
        return result | {f"s.{name}": value.clone() for name, value in layer.state_dict().items()}


def flat(value):
    """Tensors of nested tuples, in order; what is None is left out."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value if part is not None for tensor in flat(part)]


def randomize(layer):
    """Values without pattern: initial values such as ones would hide mistakes."""
    for parameter in layer.parameters():
        parameter.data = torch.randn_like(parameter) * 0.5
    for name, value in layer.named_buffers():
        if name.endswith("running_mean"):
            value.copy_(torch.randn_like(value))
        if name.endswith("running_var"):
            value.copy_(torch.rand_like(value) + 0.5)


def R(*shape):
    return torch.randn(shape, dtype=torch.float64)


def named(cases):
    """Gives each case its layer's name and a number."""
    count = {}
    for case in cases:
        count[case.layer] = count.get(case.layer, -1) + 1
        case.name = f"{case.layer}.{count[case.layer]}"
    return cases


def linear(add):
    add("Linear", dict(in_features=3, out_features=4), R(2, 3))
    add("Linear", dict(in_features=3, out_features=2, bias=False), R(2, 2, 3))
    add("Bilinear", dict(in1_features=2, in2_features=3, out_features=4), R(2, 2), R(2, 3))
    add("Bilinear", dict(in1_features=2, in2_features=3, out_features=2, bias=False), R(2), R(3))
    index = torch.tensor([[1, 0, 3], [1, 3, 1]])
    add("Embedding", dict(num_embeddings=5, embedding_dim=3), index)
    add("Embedding", dict(num_embeddings=5, embedding_dim=3, padding_idx=1), index)
    add("Embedding", dict(num_embeddings=5, embedding_dim=3, padding_idx=-2), index)
    add("Embedding", dict(num_embeddings=5, embedding_dim=3, max_norm=0.5), index)
    add("Embedding", dict(num_embeddings=5, embedding_dim=3, max_norm=0.5, norm_type=1.0), index)
    for mode in ["sum", "mean", "max"]:
        table = dict(num_embeddings=5, embedding_dim=3, mode=mode)
        add("EmbeddingBag", table, index)
        add("EmbeddingBag", table | dict(padding_idx=-2), index.flatten(), torch.tensor([0, 2, 2]))
    add("EmbeddingBag", table | dict(include_last_offset=True), index.flatten(), torch.tensor([0, 4, 6]))
    add("EmbeddingBag", dict(num_embeddings=5, embedding_dim=3, max_norm=0.5, mode="sum"), index, R(2, 3))


def norms(add):
    x2, x3, x4 = R(4, 3) * 2 + 1, R(3, 3, 4) * 2 + 1, R(2, 3, 3, 2) * 2 + 1
    x5 = R(2, 3, 2, 1, 2) * 2 + 1
    batches = [("BatchNorm1d", x2), ("BatchNorm1d", x3), ("BatchNorm2d", x4), ("BatchNorm3d", x5)]
    for layer, x in batches:
        for train in [True, False]:
            add(layer, dict(num_features=3), x, train=train)
        add(layer, dict(num_features=3, momentum=None, eps=1e-3), x, calls=3)
        add(layer, dict(num_features=3, affine=False, momentum=0.3), x, calls=2)
        add(layer, dict(num_features=3, bias=False), x)
        add(layer, dict(num_features=3, track_running_stats=False), x, train=False)
    for size in [4, (4,), (3, 4)]:
        add("LayerNorm", dict(normalized_shape=size), x3)
        add("RMSNorm", dict(normalized_shape=size), x3)
    add("LayerNorm", dict(normalized_shape=4, eps=1e-2, bias=False), x3)
    add("LayerNorm", dict(normalized_shape=4, elementwise_affine=False), x3)
    add("RMSNorm", dict(normalized_shape=4, eps=1e-2, elementwise_affine=False), x3)
    x = R(2, 4, 3) - 0.5
    add("GroupNorm", dict(num_groups=2, num_channels=4), x)
    add("GroupNorm", dict(num_groups=4, num_channels=4, eps=1e-2), R(2, 4, 2, 2))
    add("GroupNorm", dict(num_groups=1, num_channels=4, affine=False), x)
    add("GroupNorm", dict(num_groups=2, num_channels=4, bias=False), x)
    add("InstanceNorm1d", dict(num_features=4), x)
    add("InstanceNorm1d", dict(num_features=4, affine=True), x[0])
    add("InstanceNorm2d", dict(num_features=3, affine=True, eps=1e-3), x4)
    add("InstanceNorm3d", dict(num_features=3, affine=True), x5)
    tracks = dict(num_features=3, affine=True, track_running_stats=True)
    for train in [True, False]:
        add("InstanceNorm1d", tracks, x3, train=train, calls=2)
        add("InstanceNorm2d", tracks | dict(momentum=0.3, affine=False), x4[0], train=train)
    add("InstanceNorm3d", tracks | dict(momentum=None), x5)
    add("LocalResponseNorm", dict(size=2), x3)
    add("LocalResponseNorm", dict(size=3, alpha=0.5, beta=0.6, k=2.0), x4)


def activations(add):
    x = R(2, 6) * 2.5
    plain = "ReLU ReLU6 SELU SiLU Mish Sigmoid LogSigmoid Hardswish Tanh Tanhshrink"
    for layer in (plain + " Softsign GELU LeakyReLU ELU CELU Hardtanh Softplus").split():
        add(layer, {}, x)
    for layer in "Softshrink Hardshrink PReLU GLU Identity".split():
        add(layer, {}, x)
    add("GELU", dict(approximate="tanh"), x)
    add("LeakyReLU", dict(negative_slope=0.2), x)
    add("ELU", dict(alpha=0.7), x)
    # PyTorch rounds these constants to float: 1 / alpha, and 1 / 6 in the gradient.
    add("CELU", dict(alpha=0.5), x)
    add("Hardsigmoid", {}, x, tol=1e-7)
    add("Hardtanh", dict(min_val=-0.5, max_val=2.0), x)
    add("Softplus", dict(beta=2.0, threshold=3.0), x)
    add("Softshrink", dict(lambd=0.2), x)
    add("Hardshrink", dict(lambd=0.2), x)
    add("Threshold", dict(threshold=0.1, value=20.0), x)
    add("PReLU", dict(num_parameters=3), R(2, 3, 2))
    add("GLU", dict(dim=0), x)
    for layer in ["Softmax", "LogSoftmax", "Softmin"]:
        add(layer, dict(dim=1), x)
        add(layer, dict(dim=-3), R(2, 3, 2))
    for layer in ["Dropout", "Dropout1d"]:
        add(layer, dict(p=0.3), R(2, 3), train=False)
    add("Dropout", dict(p=0.0), x)
    add("Dropout2d", dict(p=0.3), R(2, 3, 2, 2), train=False)
    add("Dropout3d", dict(p=0.3), R(2, 1, 2, 2, 1), train=False)
    add("AlphaDropout", dict(p=0.3), x, train=False)
    add("Softmax2d", {}, R(2, 3, 2, 2))
    add("Flatten", {}, R(2, 3, 2))
    add("Flatten", dict(start_dim=0, end_dim=1), R(2, 3, 2))
    add("Unflatten", dict(dim=1, unflattened_size=(2, -1)), x)
    add("ZeroPad2d", dict(padding=2), R(1, 2, 2, 2))
    add("ZeroPad2d", dict(padding=(1, 0, 2, -1)), R(2, 2, 2))
    for layer in ["ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"]:
        add(layer + "1d", dict(padding=(2, 1)), R(1, 2, 4))
        if layer != "ZeroPad":
            add(layer + "2d", dict(padding=1), R(1, 2, 3, 2))
        add(layer + "3d", dict(padding=(1, 0, 1, 1, 0, 2)), R(1, 3, 2, 3))
    for d in [1, 2, 3]:
        add(f"ConstantPad{d}d", dict(padding=1, value=0.5), R(1, 2, *[2] * d))
    add("ConstantPad1d", dict(padding=(-1, 2), value=3), R(2, 3))
    image = R(1, 2, 2, 3)
    add("Upsample", dict(scale_factor=2), image)
    add("Upsample", dict(size=(3, 5)), image)
    add("Upsample", dict(size=5), R(1, 2, 3))
    add("Upsample", dict(scale_factor=(1.5, 2.0), mode="bilinear"), image)
    add("Upsample", dict(scale_factor=1.7, mode="bicubic", align_corners=True), image)
    add("Upsample", dict(scale_factor=1.6, mode="linear", recompute_scale_factor=True), R(1, 2, 3))
    add("Upsample", dict(size=(3, 2, 3), mode="trilinear"), R(1, 1, 2, 2, 2))
    add("Upsample", dict(size=(3, 4), mode="nearest-exact"), image)
    add("Upsample", dict(size=(1, 2), mode="area"), image)
    add("UpsamplingNearest2d", dict(scale_factor=2), image)
    add("UpsamplingBilinear2d", dict(size=(3, 5)), image)
    add("PixelShuffle", dict(upscale_factor=2), R(1, 4, 2, 3))
    add("PixelUnshuffle", dict(downscale_factor=2), R(1, 1, 2, 4))
    add("ChannelShuffle", dict(groups=2), R(1, 4, 2))
    add("Unfold", dict(kernel_size=2), R(1, 2, 3, 3))
    add("Unfold", dict(kernel_size=(2, 1), dilation=2, padding=(1, 0), stride=(1, 2)), R(2, 3, 3))
    add("Fold", dict(output_size=(3, 4), kernel_size=2), R(1, 4, 6))
    add("Fold", dict(output_size=(3, 4), kernel_size=(1, 2), stride=2), R(2, 4))


def later(add):
    """Layers that came later, with numbers of their own: those of the cases before stay."""
    index = torch.tensor([[1, 0, 3], [1, 3, 1]])
    table = dict(num_embeddings=5, embedding_dim=3, scale_grad_by_freq=True)
    add("Embedding", table, index)
    add("Embedding", table | dict(padding_idx=3), index)
    for mode in ["sum", "mean"]:
        add("EmbeddingBag", table | dict(mode=mode), index)
    add("EmbeddingBag", table | dict(mode="mean", padding_idx=0), index.flatten(), torch.tensor([0, 2, 2]))
    x = R(2, 6) * 2.5
    add("RReLU", {}, x, train=False)
    add("RReLU", dict(lower=0.2, upper=0.2), x)
    add("FeatureAlphaDropout", dict(p=0.3), R(2, 3, 2), train=False)
    layer_cases_windows.pooling_more(add)
    table, rows = dict(in_features=16, n_classes=10, cutoffs=[2, 5]), R(5, 16)
    targets = torch.tensor([0, 4, 9, 1, 3])
    add("AdaptiveLogSoftmaxWithLoss", table, rows, targets)
    add("AdaptiveLogSoftmaxWithLoss", table | dict(div_value=1.5, head_bias=True), rows, targets)
    add("AdaptiveLogSoftmaxWithLoss", table, rows[:2], targets[:2])  # without the last cluster
    add("AdaptiveLogSoftmaxWithLoss", table, rows[0], targets[2])


def collect(parts):
    cases = []

    def add(layer, args, *inputs, **options):
        cases.append(Case(layer, args, inputs, **options))

    for part in parts:
        part(add)
    return named(cases)


SMALL = [linear, norms, activations, layer_cases_windows.small, layer_cases_losses.losses]


def small():
    """The cases whose figures lie in layers/; a few hundred numbers each."""
    torch.manual_seed(11)
    cases = collect(SMALL)
    with torch.random.fork_rng():
        torch.manual_seed(13)
        cases += collect([later])
    return named(cases)


def all_cases():
    """The small ones and larger or rarer ones."""
    torch.manual_seed(12)
    return collect(SMALL + [layer_cases_windows.more, layer_cases_sequences.sequences, later])
