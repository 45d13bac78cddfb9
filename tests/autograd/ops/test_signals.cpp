// Windows, derivatives by differences and histograms, with PyTorch's numbers.
#include <cmath>
#include <limits>

#include "support/close.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;
using test::check_near, test::waves;

namespace {

const TensorOptions kWide{.dtype = kFloat64};
const double kNaN = std::nan("");

}  // namespace

TEST_CASE("windows are PyTorch's, periodic and symmetric") {
  check_near(hann_window(5, true, kWide),
             {0.0, 0.345491502813, 0.904508497187, 0.904508497187, 0.345491502813});
  check_near(hann_window(4, false, kWide), {0.0, 0.75, 0.75, 0.0});
  check_near(hamming_window(5, true, 0.54, 0.46, kWide),
             {0.08, 0.397852182588, 0.912147817412, 0.912147817412, 0.397852182588});
  check_near(hamming_window(4, true, 0.6, 0.3, kWide), {0.3, 0.6, 0.9, 0.6});
  check_near(blackman_window(5, true, kWide),
             {0.0, 0.200770143263, 0.849229856737, 0.849229856737, 0.200770143263});
  check_near(blackman_window(4, false, kWide), {0.0, 0.63, 0.63, 0.0});
  check_near(bartlett_window(5, true, kWide), {0.0, 0.4, 0.8, 0.8, 0.4});
  check_near(bartlett_window(4, false, kWide), {0.0, 0.666666666667, 0.666666666667, 0.0});
  check_near(kaiser_window(5, true, 12.0, kWide),
             {5.2773441e-05, 0.10171968771, 0.792939834101, 0.792939834101, 0.10171968771});
  check_near(kaiser_window(4, true, 3.0, kWide),
             {0.204884756401, 0.726925530288, 1.0, 0.726925530288});
}

TEST_CASE("windows of few elements, of other dtypes and elsewhere") {
  CHECK(hann_window(0).shape() == Shape{0});
  CHECK(kaiser_window(1).equal(ones({1})));
  CHECK(bartlett_window(1, false).equal(ones({1})));
  CHECK(blackman_window(3).dtype() == kFloat32);
  CHECK(hann_window(3, true, {.dtype = kFloat16}).dtype() == kFloat16);
  CHECK(hann_window(8, true, {.requires_grad = true}).requires_grad());
  CHECK(hann_window(9, kWide).equal(hann_window(9, true, kWide)));
  CHECK(hamming_window(9, kWide).equal(hamming_window(9, true, 0.54, 0.46, kWide)));
  CHECK(blackman_window(9, kWide).equal(blackman_window(9, true, kWide)));
  CHECK(bartlett_window(9, {.dtype = kFloat64}).equal(bartlett_window(9, true, kWide)));
  CHECK(kaiser_window(9, kWide).equal(kaiser_window(9, true, 12.0, kWide)));
  CHECK(kaiser_window(7, true, 12.0, {.device = kMeta}).shape() == Shape{7});
  // Rounded once from double.
  CHECK(hann_window(400).equal(hann_window(400, true, kWide).to(kFloat32)));
  CHECK_THROWS_WITH(hann_window(-1), "hann_window: window_length is negative: -1");
  CHECK_THROWS_WITH(kaiser_window(4, true, 12.0, {.dtype = kInt64}),
                    ContainsSubstring("kaiser_window: windows are floating"));
}

TEST_CASE("gradient takes differences of neighbours as PyTorch does") {
  const Tensor x = waves({3, 4}, 0.3);
  const std::vector<Tensor> plain = gradient(x);
  REQUIRE(plain.size() == 2);
  check_near(plain[0], {-0.253939544228, -1.453328875751, -1.969194928118, -1.558917836271,
                        -0.334698435746, -0.264964810647, -0.070614094912, 0.156947533036,
                        -0.415457327264, 0.923399254456, 1.827966738294, 1.872812902344});
  check_near(plain[1], {0.545950778147, 0.348072301896, -0.083003902128, -0.316201629901,
                        -0.653438553376, -0.509555390049, -0.135798382389, 0.094075461945,
                        0.685418028344, 0.612156642729, 0.338908441555, 0.138921625995});
  const std::vector<Tensor> second = gradient(x, {.spacing = {2.0, 0.5}, .edge_order = 2});
  check_near(second[0], {-0.086590326355, -1.320846470427, -1.933887880662, -1.637391602789,
                         -0.167349217873, -0.132482405324, -0.035307047456, 0.078473766518,
                         -0.248108109391, 1.05588165978, 1.86327378575, 1.794339135825});
  check_near(second[1], {1.487658508795, 0.696144603791, -0.166007804257, -1.098798715349,
                         -1.594643433406, -1.019110780098, -0.271596764777, 0.647898612557,
                         1.517358827916, 1.224313285459, 0.67781688311, -0.122130379131});
}

TEST_CASE("gradient at points of any distances") {
  const Tensor x = waves({3, 4}, 0.3);
  const Tensor rows = tensor({0.0, 1.0, 4.0}, kWide), columns = tensor({0.0, 1.0, 3.0, 3.5}, kWide);
  const std::vector<Tensor> found = gradient(x, {.coordinates = {rows, columns}, .edge_order = 2});
  check_near(found[0], {-0.282802986346, -1.89361103256, -2.613824221671, -2.104715037201,
                        -0.22507610211, -1.013046718942, -1.324565634564, -1.013120635342,
                        -0.051895449399, 1.628646221912, 2.543210126759, 2.261662570237});
  check_near(found[1], {0.702902066588, 0.388999489705, -0.490903225278, -0.773903294328,
                        -0.810306033381, -0.496571073371, 0.11395351644, 0.26234833134,
                        0.824074828272, 0.546761228415, 0.276164127303, 0.279522376676});
  check_near(gradient(x, {.coordinates = {columns}, .dim = {1}})[0],
             {0.545950778147, 0.388999489705, -0.490903225278, -0.632403259803, -0.653438553376,
              -0.496571073371, 0.11395351644, 0.18815092389, 0.685418028344, 0.546761228415,
              0.276164127303, 0.27784325199});
  // Two points are a line.
  CHECK(gradient(tensor({1.0, 5.0}))[0].equal(tensor({4.0, 4.0})));
  CHECK(gradient(tensor({1.0, 5.0}), {.coordinates = {tensor({0.0, 2.0})}})[0].equal(
      tensor({2.0, 2.0})));
}

TEST_CASE("gradient of integers and halves, and what it refuses") {
  CHECK(gradient(tensor({1, 2, 4, 9}))[0].equal(tensor({1.0, 1.5, 3.5, 5.0})));
  const Tensor half = tensor({1.0, 2.0, 4.0, 9.0}, {.dtype = kBFloat16});
  CHECK(gradient(half)[0].equal(tensor({1.0, 1.5, 3.5, 5.0}, {.dtype = kBFloat16})));
  const Tensor x = zeros({3, 2});
  CHECK_THROWS_WITH(gradient(x, {.edge_order = 2}), ContainsSubstring("fewer than 3 points"));
  CHECK_THROWS_WITH(gradient(x, {.edge_order = 3}), ContainsSubstring("neither 1 nor 2"));
  CHECK_THROWS_WITH(gradient(x, {.spacing = {1.0, 2.0, 3.0}}), ContainsSubstring("3 distances"));
  CHECK_THROWS_WITH(gradient(x, {.coordinates = {ones({3})}}),
                    ContainsSubstring("coordinates for 1"));
  CHECK_THROWS_WITH(gradient(x, {.coordinates = {ones({2})}, .dim = {0}}),
                    ContainsSubstring("coordinates [2] of the 3 points"));
}

TEST_CASE("histogram counts as PyTorch does") {
  const Tensor x = tensor({0.1, 0.3, 0.7, 1.1, 2.0, -1.0});
  const Histogram plain = histogram(x, 4);
  CHECK(plain.hist.equal(tensor({1.0, 2.0, 2.0, 1.0})));
  CHECK(plain.bin_edges.equal(tensor({-1.0, -0.25, 0.5, 1.25, 2.0})));
  CHECK(histogram(x, 3, {.range = {{0.0, 1.1}}}).hist.equal(tensor({2.0, 1.0, 1.0})));
  const Histogram weighted =
      histogram(x.to(kFloat64), tensor({0.0, 0.5, 1.1, 2.0}, kWide),
                {.weight = tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, kWide), .density = true});
  // 1.1 is an edge in double too, but 1.1f is not.
  check_near(weighted.hist, {0.4, 0.333333333333, 0.666666666667}, 1e-7);
  const Histogram same = histogram(tensor({2.0, 2.0}), 2);
  CHECK(same.hist.equal(tensor({0.0, 2.0})));
  CHECK(same.bin_edges.equal(tensor({1.5, 2.0, 2.5})));
  CHECK(histogram(zeros({0}), 2).bin_edges.equal(tensor({0.0, 0.5, 1.0})));
  CHECK(histogram(tensor({1.0, kNaN, 9.0}), 2, {.range = {{0.0, 2.0}}})
            .hist.equal(tensor({0.0, 1.0})));
}

TEST_CASE(
    "histogram counts many elements exactly, knows shapes on meta, and refuses what has no range") {
  const int64_t many = (int64_t{1} << 24) + 3;
  CHECK(histogram(zeros({1}, kWide).expand({many}), 1, {.range = {{0.0, 1.0}}}).hist.item() ==
        static_cast<double>(many));
  const Histogram planned = histogram(zeros({5}, {.device = kMeta}), 3);
  CHECK(planned.hist.shape() == Shape{3});
  CHECK(planned.bin_edges.shape() == Shape{4});
  const Tensor x = ones({2});
  CHECK_THROWS_WITH(histogram(x, 0), ContainsSubstring("there must be one"));
  CHECK_THROWS_WITH(histogram(x.to(kInt64), 2), ContainsSubstring("needs floats"));
  CHECK_THROWS_WITH(histogram(tensor({1.0, kNaN}), 2), ContainsSubstring("no range"));
  CHECK_THROWS_WITH(histogram(x, 2, {.weight = ones({3})}),
                    ContainsSubstring("weights of shape [3]"));
  CHECK_THROWS_WITH(histogram(x, ones({1})), ContainsSubstring("two or more"));
}

TEST_CASE("finfo and iinfo have the limits of each dtype") {
  CHECK(finfo(kFloat32).min == -double{std::numeric_limits<float>::max()});
  CHECK(finfo(kFloat32).tiny == double{std::numeric_limits<float>::min()});
  CHECK(finfo(kFloat64).eps == std::numeric_limits<double>::epsilon());
  CHECK(finfo(kFloat16).max == 65504.0);
  CHECK(finfo(kFloat16).eps == 0.0009765625);
  CHECK(finfo(kBFloat16).max == 3.3895313892515355e38);
  CHECK(finfo(kBFloat16).eps == 0.0078125);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor most = full({}, finfo(dtype).max, {.dtype = dtype});
    CHECK(most.item<double>() == finfo(dtype).max);
    CHECK(std::isinf((most * 2.0).item<double>()));
    const Tensor one = ones({}, {.dtype = dtype});
    CHECK((one + finfo(dtype).eps).item<double>() == 1.0 + finfo(dtype).eps);
    CHECK((one + finfo(dtype).eps / 4.0).item<double>() == 1.0);
  }
  CHECK(iinfo(kInt32).min == std::numeric_limits<int32_t>::min());
  CHECK(iinfo(kInt64).max == std::numeric_limits<int64_t>::max());
  CHECK(iinfo(kUInt8).max == 255);
  CHECK_THROWS_WITH(finfo(kInt32), "finfo: int32 is not floating; iinfo() is for integers");
  CHECK_THROWS_WITH(iinfo(kFloat32), "iinfo: float32 is no integer; finfo() is for floats");
}
