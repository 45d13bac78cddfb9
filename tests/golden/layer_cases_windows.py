"""Cases of convolution and pooling for layer_cases.py."""

import itertools

import torch


def R(*shape):
    return torch.randn(shape, dtype=torch.float64)


def conv(add, layer, sizes, x, **options):
    options = dict(in_channels=sizes[0], out_channels=sizes[1], kernel_size=sizes[2]) | options
    add(layer, options, x)


def small(add):
    line, image = R(2, 2, 7), R(1, 2, 5, 4)
    conv(add, "Conv1d", (2, 3, 3), line)
    conv(add, "Conv1d", (2, 4, 3), line, stride=2, padding=1, dilation=2, groups=2, bias=False)
    conv(add, "Conv1d", (2, 2, 4), line, padding="same")
    conv(add, "Conv2d", (2, 3, 3), image)
    conv(add, "Conv2d", (2, 2, (3, 2)), image, stride=(2, 1), padding=(1, 2), dilation=(1, 2))
    conv(add, "Conv2d", (2, 4, 2), image, groups=2, bias=False)
    conv(add, "Conv2d", (2, 2, (2, 3)), image, padding="same", dilation=(3, 1))
    conv(add, "Conv2d", (2, 2, 3), image, padding="valid")
    for mode in ["reflect", "replicate", "circular"]:
        conv(add, "Conv2d", (2, 1, 3), image, padding=(1, 2), padding_mode=mode)
    conv(add, "Conv2d", (2, 2, 3), image[0], padding=1)
    conv(add, "ConvTranspose1d", (2, 3, 3), line, stride=2, padding=1, output_padding=1)
    conv(add, "ConvTranspose2d", (2, 3, 2), image)
    conv(add, "ConvTranspose2d", (2, 2, (2, 3)), R(1, 2, 2, 3), stride=(3, 2), padding=(0, 1),
         output_padding=(2, 0), groups=2, bias=False)
    conv(add, "ConvTranspose2d", (2, 2, 2), R(2, 2, 2), dilation=2)
    add("MaxPool1d", dict(kernel_size=2), line)
    add("MaxPool1d", dict(kernel_size=3, stride=2, padding=1, ceil_mode=True), line)
    add("MaxPool2d", dict(kernel_size=2), image)
    add("MaxPool2d", dict(kernel_size=(3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 1)), image)
    add("AvgPool1d", dict(kernel_size=3, stride=2, padding=1, count_include_pad=False), line)
    add("AvgPool2d", dict(kernel_size=2), image)
    add("AvgPool2d", dict(kernel_size=(3, 2), stride=(1, 2), padding=(1, 0), ceil_mode=True), image)
    add("AdaptiveAvgPool1d", dict(output_size=3), line)
    add("AdaptiveAvgPool2d", dict(output_size=1), image)
    add("AdaptiveAvgPool2d", dict(output_size=(2, 3)), image)
    add("AdaptiveMaxPool1d", dict(output_size=3), line)
    add("AdaptiveMaxPool2d", dict(output_size=(2, 3)), image[0])
    add("AdaptiveAvgPool2d", dict(output_size=(None, 2)), image)
    add("AdaptiveMaxPool2d", dict(output_size=(2, None)), image)
    add("AvgPool2d", dict(kernel_size=2, ceil_mode=True, divisor_override=3), image)
    add("AvgPool2d", dict(kernel_size=3, stride=2, padding=1, divisor_override=-2), image)
    volumes(add)
    unpooling(add)


def volumes(add):
    volume = R(1, 2, 3, 5, 4)
    conv(add, "Conv3d", (2, 2, 2), volume)
    conv(add, "Conv3d", (2, 4, (1, 3, 2)), volume, stride=(1, 2, 1), padding=(0, 1, 2),
         dilation=(1, 1, 2), groups=2, bias=False)
    conv(add, "Conv3d", (2, 1, (2, 3, 2)), volume, padding="same")
    for mode in ["reflect", "replicate", "circular"]:
        conv(add, "Conv3d", (2, 1, 2), volume, padding=(1, 0, 2), padding_mode=mode)
    conv(add, "Conv3d", (2, 1, 2), volume[0], padding=1)
    conv(add, "ConvTranspose3d", (2, 1, 2), R(1, 2, 2, 2, 3))
    conv(add, "ConvTranspose3d", (2, 2, (2, 1, 3)), R(1, 2, 2, 2, 3), stride=(2, 1, 3),
         padding=(1, 0, 1), output_padding=(1, 0, 2), groups=2, bias=False)
    conv(add, "ConvTranspose3d", (2, 1, 2), R(2, 2, 2, 2), dilation=2)
    add("MaxPool3d", dict(kernel_size=2), volume)
    add("MaxPool3d", dict(kernel_size=(2, 3, 2), stride=(1, 2, 1), padding=(1, 1, 0),
                          dilation=(1, 1, 2), ceil_mode=True), volume)
    add("AvgPool3d", dict(kernel_size=2), volume[0])
    add("AvgPool3d", dict(kernel_size=(2, 3, 2), stride=(1, 2, 1), padding=(1, 1, 0),
                          ceil_mode=True, count_include_pad=False), volume)
    add("AvgPool3d", dict(kernel_size=(1, 2, 3), ceil_mode=True, divisor_override=5), volume)
    add("AdaptiveAvgPool3d", dict(output_size=(2, None, 3)), volume)
    add("AdaptiveMaxPool3d", dict(output_size=(2, 2, 3)), volume)


def unpooling(add):
    for layer, x in [("1d", R(1, 2, 7)), ("2d", R(2, 5, 4)), ("3d", R(1, 1, 4, 2, 4))]:
        pool = getattr(torch.nn, "MaxPool" + layer)(2, return_indices=True)
        values, indices = pool(x)
        add("MaxUnpool" + layer, dict(kernel_size=2), values, indices)
    # Windows that overlap may name a place twice, where gradients differ (docs/differences.md).
    values, indices = torch.nn.MaxPool2d(3, 3, 1, return_indices=True)(R(1, 1, 5, 4))
    add("MaxUnpool2d", dict(kernel_size=3, stride=3, padding=1), values, indices,
        call=dict(output_size=(5, 4)))


def more(add):
    """Every combination of a few values of each option that fits."""
    x, line = R(3, 4, 9, 8), R(3, 4, 9)
    for k, s, p, d, g in itertools.product([1, 2, 3, (3, 2)], [1, (2, 3)], [0, 1, (2, 1)], [1, (1, 2)],
                                           [1, 4]):
        conv(add, "Conv2d", (4, 8, k), x, stride=s, padding=p, dilation=d, groups=g, bias=g == 1)
    for k, s, p, d, g in itertools.product([1, 3, 4], [1, 2], [0, 2], [1, 2], [1, 2]):
        conv(add, "Conv1d", (4, 6, k), line, stride=s, padding=p, dilation=d, groups=g)
    for k, d, mode in itertools.product([2, (3, 4)], [1, 2], ["zeros", "reflect", "replicate",
                                                            "circular"]):
        conv(add, "Conv2d", (4, 2, k), x, padding="same", dilation=d, padding_mode=mode)
    for k, s, p, g in itertools.product([2, (3, 2)], [1, 2, (3, 2)], [0, 1], [1, 2]):
        o = 1 if s != 1 else 0
        conv(add, "ConvTranspose2d", (4, 4, k), R(2, 4, 4, 3), stride=s, padding=p, output_padding=o,
             groups=g)
        if isinstance(s, int) and k == 2:
            conv(add, "ConvTranspose1d", (4, 4, k), R(2, 4, 5), stride=s, padding=p,
                 output_padding=o, groups=g)
    for k, s, ceil in itertools.product([2, 3, (2, 3)], [1, 2, (3, 1)], [False, True]):
        p = 1 if k != 3 else 0
        add("MaxPool2d", dict(kernel_size=k, stride=s, padding=p, ceil_mode=ceil), x)
        for inside in [False, True]:
            add("AvgPool2d", dict(kernel_size=k, stride=s, padding=p, ceil_mode=ceil,
                                  count_include_pad=inside), x)
    for size in [1, 2, 3, (4, 7), (9, 8), (11, 5)]:
        add("AdaptiveAvgPool2d", dict(output_size=size), x)
        add("AdaptiveMaxPool2d", dict(output_size=size), x)


def pooling_more(add):
    line, image, volume = R(2, 2, 7), R(2, 2, 5, 7), R(1, 2, 4, 5, 5)
    add("LPPool1d", dict(norm_type=2.0, kernel_size=3), line)
    add("LPPool1d", dict(norm_type=3.0, kernel_size=2, stride=3, ceil_mode=True), line[0].abs())
    add("LPPool2d", dict(norm_type=2.0, kernel_size=2), image)
    add("LPPool2d", dict(norm_type=1.5, kernel_size=(3, 2), stride=(1, 2), ceil_mode=True), image.abs() + 0.1)
    add("LPPool3d", dict(norm_type=2.0, kernel_size=(1, 2, 3), stride=2), volume)
    # Numbers that bfloat16 has.
    places = [[[0.25, 0.625], [0.0, 0.875]], [[0.5, 0.125], [0.75, 0.375]]]
    given = dict(_random_samples=places)
    add("FractionalMaxPool2d", dict(kernel_size=2, output_size=3) | given, image)
    add("FractionalMaxPool2d", dict(kernel_size=(2, 3), output_size=(1, 4)) | given, image)
    add("FractionalMaxPool2d", dict(kernel_size=3, output_ratio=(0.5, 0.6)) | given, image)
    given = dict(_random_samples=[[[0.25, 0.625, 0.125], [0.5, 0.0, 0.875]]])
    add("FractionalMaxPool3d", dict(kernel_size=2, output_size=(2, 3, 3)) | given, volume)
    add("FractionalMaxPool3d", dict(kernel_size=(1, 2, 2), output_ratio=0.7) | given, volume[0])
