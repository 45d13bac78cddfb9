// What differs from PyTorch on purpose: docs/differences.md says what, tests/golden/differences.tsv
// names these tests, and the last of them compares the two.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Values = std::vector<double>;
using Bools = std::vector<bool>;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The names of all test cases below tests/.
std::set<std::string> test_names() {
  const std::regex named("TEST_CASE\\(\\s*\"([^\"]*)\"(?:\\s*\"([^\"]*)\")?");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(HERO_GOLDEN_DIR "/..")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at) {
      names.insert((*at)[1].str() + (*at)[2].str());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("bools compute as the numbers 0 and 1") {
  const Tensor a = tensor({true, true, false}), b = tensor({true, false, true});
  CHECK((-a).to_vector<bool>() == Bools{true, true, false});
  CHECK((a - b).to_vector<bool>() == Bools{false, true, true});
  CHECK((a - 1).to_vector<int64_t>() == std::vector<int64_t>{0, 0, -1});
  CHECK((a - true).to_vector<bool>() == Bools{false, false, true});
  CHECK(pow(a, b).to_vector<bool>() == Bools{true, true, false});
  for (const Tensor& same : {abs(a), floor(a), ceil(a), round(a), relu(a)}) {
    CHECK(same.dtype() == kBool);
    CHECK(equal(same, a));
  }
}

TEST_CASE("functions of floats take integers as float32") {
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64}) {
    const Tensor x = tensor({0, 1}, {.dtype = dtype}), f = x.to(kFloat32);
    using F = Tensor (*)(const Tensor&);
    for (const F op : {F(sigmoid), F(silu), F(mish), F(softsign), F(hardswish), F(logsigmoid),
                       F(hardsigmoid), F(tanhshrink), F(selu)}) {
      CHECK(op(x).dtype() == kFloat32);
      CHECK(equal(op(x), op(f)));
    }
    CHECK(equal(elu(x), elu(f)));
    CHECK(equal(celu(x), celu(f)));
    CHECK(equal(gelu(x), gelu(f)));
    CHECK(equal(leaky_relu(x), leaky_relu(f)));
    CHECK(equal(softplus(x), softplus(f)));
    CHECK(equal(logaddexp(x, x), logaddexp(f, f)));
    CHECK(equal(lerp(x, x, 0.5), lerp(f, f, 0.5)));
    CHECK(equal(addcdiv(x, x, x + 1), addcdiv(f, f, f + 1)));
  }
}

TEST_CASE("remainders and whole quotients of integers by 0 are 0") {
  for (const DType dtype : {kUInt8, kInt32, kInt64}) {
    const Tensor x = tensor({7, 0}, {.dtype = dtype});
    CHECK(remainder(x, 0).to_vector<double>() == Values{0, 0});
    CHECK(remainder(x, x - x).to_vector<double>() == Values{0, 0});
    CHECK(fmod(x, 0).to_vector<double>() == Values{0, 0});
    CHECK(floor_divide(x, 0).to_vector<double>() == Values{0, 0});
    CHECK(div(x, x - x, Rounding::trunc).to_vector<double>() == Values{0, 0});
  }
}

TEST_CASE("operations that PyTorch wants of one dtype promote") {
  const Tensor half = ones({2}, {.dtype = kFloat16}), wide = ones({2}, {.dtype = kFloat64});
  CHECK(lerp(half, wide, 0.5).dtype() == kFloat64);
  CHECK(prelu(half, ones({1})).dtype() == kFloat32);
  CHECK(isclose(half, wide).to_vector<bool>() == Bools{true, true});
  CHECK(isclose(half, tensor({1, 2})).to_vector<bool>() == Bools{true, false});
}

TEST_CASE("fractional factors of integers are refused") {
  const Tensor v = tensor({1, 2}), m = ones({2, 2}, kInt64), b = ones({1, 2, 2}, kInt64);
  const AddProduct half{.beta = 0.5}, twice{.beta = 2.0, .alpha = 3.0};
  CHECK_THROWS_WITH(addmm(m, m, m, half), ContainsSubstring("addmm: beta 0.5 of int64 must be"));
  CHECK_THROWS_WITH(addmv(v, m, v, {.alpha = 2.5}), ContainsSubstring("addmv: alpha 2.5"));
  CHECK_THROWS_WITH(addr(m, v, v, half), ContainsSubstring("whole number"));
  CHECK_THROWS_WITH(baddbmm(b, b, b, half), ContainsSubstring("whole number"));
  CHECK_THROWS_WITH(addbmm(m, b, b, half), ContainsSubstring("whole number"));
  CHECK_THROWS_WITH(index_add(v, 0, tensor({0, 1}), v, 0.5),
                    ContainsSubstring("index_add: alpha 0.5"));
  CHECK_THROWS_WITH(index_add(v, 0, tensor({0, 1}), v, kInf), ContainsSubstring("alpha inf"));
  CHECK(addmv(v, m, v, twice).to_vector<double>() == Values{11, 13});
  CHECK(index_add(v, 0, tensor({0, 1}), v, 2.0).to_vector<double>() == Values{3, 6});
  const Tensor both = tensor({true, true});
  CHECK(index_add(both, 0, tensor({0, 1}), both, 255.0).to_vector<bool>() == Bools{true, true});
}

TEST_CASE("index_put wants values of the array's dtype") {
  CHECK_THROWS_WITH(index_put(zeros({2}), {tensor({0})}, tensor({1})),
                    ContainsSubstring("convert with to()"));
  const Tensor x = zeros({2, 2}), whole = tensor({1, 2});
  CHECK_THROWS_WITH(select_scatter(x, whole, 0, 0), ContainsSubstring("convert with to()"));
  CHECK_THROWS_WITH(slice_scatter(x, whole.unsqueeze(0), 0, 0, 1),
                    ContainsSubstring("convert with to()"));
  CHECK_THROWS_WITH(diagonal_scatter(x, whole), ContainsSubstring("convert with to()"));
}

TEST_CASE("argmax finds the first true") {
  CHECK(argmax(tensor({false, true, true})).item<int64_t>() == 1);
}

TEST_CASE("t of more than two dimensions swaps the last two") {
  CHECK(ones({2, 3, 4}).t().shape() == Shape{2, 4, 3});
  CHECK(ones({1, 2, 3, 4}).t().shape() == Shape{1, 2, 4, 3});
}

TEST_CASE("an empty list of dimensions means all of them, of any and all too") {
  const Tensor x = tensor({{1, 0}, {0, 0}});
  CHECK(any(x, Dims{}).shape() == Shape{});
  CHECK(any(x, Dims{}).item<bool>());
  CHECK_FALSE(all(x, Dims{}).item<bool>());
  CHECK(sum(x, Dims{}).item<int64_t>() == 1);
}

TEST_CASE("more than eight dimensions are refused") {
  const Tensor x = ones({1, 1, 1, 1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(x.unsqueeze(0), ContainsSubstring("more than 8 dimensions"));
}

TEST_CASE("dropout2d of three dimensions has no batch") {
  manual_seed(1);
  const Tensor y = dropout2d(ones({64, 2, 3}), 0.5);
  CHECK(equal(amin(y, {1, 2}), amax(y, {1, 2})));
}

TEST_CASE("losses refuse shapes that would broadcast") {
  const Tensor column = zeros({3, 1}), row = zeros({3});
  using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduction);
  for (const Loss loss : {Loss(mse_loss), Loss(l1_loss), Loss(soft_margin_loss)}) {
    CHECK_THROWS_WITH(loss(column, row, Reduction::mean), ContainsSubstring("shapes differ"));
  }
  CHECK_THROWS_WITH(huber_loss(column, row), ContainsSubstring("shapes differ"));
  CHECK_THROWS_WITH(smooth_l1_loss(column, row), ContainsSubstring("shapes differ"));
  CHECK_THROWS_WITH(kl_div(column, row), ContainsSubstring("shapes differ"));
  CHECK_THROWS_WITH(bce_with_logits(column, row), ContainsSubstring("shapes differ"));
}

TEST_CASE("of two values scattered to one place the last stays") {
  const Tensor index = tensor({1, 1, 1}), src = tensor({1.0, 2.0, 3.0});
  CHECK(scatter(zeros({2}), 0, index, src).to_vector<double>() == Values{0, 3});
  CHECK(index_put(zeros({2}), {index}, src).to_vector<double>() == Values{0, 3});
}

TEST_CASE("as_strided counts from the first element of a contiguous tensor") {
  const Tensor x = arange(6, kFloat32);
  CHECK(as_strided(slice(x, 0, 2), {2}, {2}).to_vector<double>() == Values{2, 4});
  CHECK(as_strided(slice(x, 0, 2), {2}, {2}, 1).to_vector<double>() == Values{3, 5});
  CHECK_THROWS_WITH(as_strided(slice(x, 0, 0, kEnd, 2), {2}, {1}),
                    ContainsSubstring("needs a contiguous tensor"));
}

TEST_CASE("what another element has overwritten has no gradient") {
  const Tensor index = tensor({1, 1, 2}), src = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  CHECK(grad(sum(scatter(zeros({3}), 0, index, src)), src).to_vector<double>() == Values{0, 1, 1});
  const Tensor x = tensor({5.0, 5.0, 4.0}, {.requires_grad = true});
  const Tensor y = max_unpool1d(x.reshape({1, 3}), index.reshape({1, 3}), 4);
  CHECK(y.to_vector<double>() == Values{0, 5, 4, 0});
  CHECK(grad(sum(y), x).to_vector<double>() == Values{0, 1, 1});
  CHECK(grad(sum(index_copy(zeros({3}), 0, index, src)), src).to_vector<double>() ==
        Values{0, 1, 1});
}

TEST_CASE("copysign has the slope of its signs at infinities and NaN, too") {
  const Tensor a = tensor({kInf, -kInf, std::nan("")}, {.requires_grad = true});
  CHECK(grad(sum(copysign(a, -1.0)), a).to_vector<double>() == Values{-1, 1, -1});
}

TEST_CASE("where the size stays interpolate keeps each pixel, whatever the factor") {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.requires_grad = true}).reshape({1, 1, 3});
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::linear}) {
    CHECK(interpolate(x, {.scale_factor = {1.3}, .mode = mode}).equal(x));
  }
  const Tensor image = arange(6, kFloat32).reshape({1, 1, 2, 3});
  for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic}) {
    CHECK(
        interpolate(image, {.scale_factor = {1.3}, .mode = mode, .antialias = true}).equal(image));
  }
}

TEST_CASE("bicubic resampling has its derivative where the sizes stay, too") {
  const InterpolateOptions moved{.scale_factor = {1.3}, .mode = Interpolation::bicubic};
  const Tensor x = arange(9, kFloat64).reshape({1, 1, 3, 3}).requires_grad_();
  const Tensor y = interpolate(x, moved);
  CHECK(y.shape() == x.shape());
  // It is linear: the sum of what it makes of v is the product of its gradient and v.
  const Tensor v = square(x.detach()), slope = grad(sum(y), x);
  CHECK_THAT(sum(slope * v).item(), WithinAbs(sum(interpolate(v, moved)).item(), 1e-11));
  CHECK_FALSE(equal(slope, ones({1, 1, 3, 3}, kFloat64)));
}

TEST_CASE("antialiasing does not go together with corners that keep their values") {
  const Tensor image = arange(6.0).reshape({1, 1, 1, 6});
  CHECK_THROWS_WITH(interpolate(image, {.size = {1, 3},
                                        .mode = Interpolation::bilinear,
                                        .align_corners = true,
                                        .antialias = true}),
                    ContainsSubstring("without align_corners"));
}

TEST_CASE("cosine_similarity has its derivative where lengths are bounded, too") {
  const TensorOptions leaf{.dtype = kFloat64, .requires_grad = true};
  const Tensor x = tensor({0.003, -0.004}, leaf), y = tensor({1.0, 2.0}, leaf);
  const auto similarity = [](const auto& in) { return cosine_similarity(in[0], in[1], 0, 0.01); };
  CHECK(gradcheck(similarity, {x, y}));
  const Tensor slope = y / (0.01 * norm(y));
  CHECK(allclose(grad(similarity(std::vector<Tensor>{x, y}), x), slope));
}

TEST_CASE("equal rows of a bag share the gradient of its maximum") {
  const Tensor weight = tensor({{1.0, 2.0}, {1.0, 0.0}}, {.requires_grad = true});
  const Tensor y = embedding_bag(weight, tensor({{0, 1}}), {.mode = BagMode::max});
  CHECK(grad(sum(y), weight).to_vector<double>() == Values{0.5, 1, 0.5, 0});
}

TEST_CASE("margin losses of NaN are NaN") {
  const Tensor x = tensor({{1.0, std::nan(""), 2.0}}, {.dtype = kFloat64});
  CHECK(std::isnan(multi_margin_loss(x, tensor({0})).item()));
  CHECK(std::isnan(multilabel_margin_loss(x, tensor({{0, -1, 0}})).item()));
}

TEST_CASE("the mean of margin losses of nothing is NaN") {
  const Tensor x = zeros({0, 3});
  CHECK(std::isnan(multi_margin_loss(x, zeros({0}, kInt64)).item()));
  CHECK(std::isnan(multilabel_margin_loss(x, zeros({0, 3}, kInt64)).item()));
  CHECK(std::isnan(mse_loss(x, x).item()));
}

TEST_CASE("the triangle of a Cholesky factor that is not read has no gradient") {
  const Tensor l = tensor({{2.0, 5.0}, {1.0, 3.0}}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor b = ones({2, 1}, kFloat64);
  for (const Tensor& y : {cholesky_solve(b, l), cholesky_inverse(l)}) {
    CHECK(grad(sum(y), l).select(0, 0).select(0, 1).item() == 0.0);
  }
}

TEST_CASE("the gradient of targets of binary_cross_entropy is that of bounded logarithms") {
  const Tensor y = tensor({0.5}, {.requires_grad = true});
  CHECK(grad(binary_cross_entropy(tensor({0.0}), y), y).item() == 100.0);
  CHECK(grad(binary_cross_entropy(tensor({1.0}), y), y).item() == -100.0);
}

TEST_CASE("windows and losses of integers are refused") {
  const Tensor line = ones({1, 1, 4}, kInt64), image = ones({1, 1, 4, 4}, kInt32),
               volume = ones({1, 1, 4, 4, 4}, kUInt8);
  const auto hint = ContainsSubstring("convert it to a floating dtype");
  CHECK_THROWS_WITH(conv1d(line, ones({1, 1, 2}, kInt64)), hint);
  CHECK_THROWS_WITH(conv_transpose2d(image, ones({1, 1, 2, 2}, kInt32)), hint);
  CHECK_THROWS_WITH(conv3d(volume, ones({1, 1, 2, 2, 2}, kUInt8)), hint);
  CHECK_THROWS_WITH(max_pool1d(line, 2), hint);
  CHECK_THROWS_WITH(avg_pool2d(image, {2, 2}), hint);
  CHECK_THROWS_WITH(max_pool3d(volume, {2, 2, 2}), hint);
  CHECK_THROWS_WITH(interpolate(volume, {.size = {2, 2, 2}}), hint);
  CHECK_THROWS_WITH(unfold(image, {2, 2}), hint);
  const Tensor a = ones({2, 3}, kInt64), sides = ones({2}, kInt64);
  CHECK_THROWS_WITH(margin_ranking_loss(sides, sides, sides), hint);
  CHECK_THROWS_WITH(poisson_nll_loss(a, a), hint);
  CHECK_THROWS_WITH(triplet_margin_loss(a, a, a), hint);
  CHECK_THROWS_WITH(cosine_embedding_loss(a, a, sides), hint);
}

TEST_CASE("a number is the mode before NaN is, and volumes have no bicubic samples") {
  const Tensor x = tensor({std::nan(""), 2.0, 1.0, std::nan("")});
  CHECK(mode(x).values.item() == 1.0);
  CHECK_THROWS_WITH(
      grid_sample(ones({1, 1, 2, 2, 2}), zeros({1, 2, 2, 2, 3}), {.mode = GridMode::bicubic}),
      ContainsSubstring("bicubic is made for [N, C, H, W]"));
}

TEST_CASE("sort is stable without being asked") {
  const Tensor x = remainder(arange(1000), 3);
  const Tensor order = argsort(x);
  const std::vector<int64_t> at = order.to_vector<int64_t>(), values = x.to_vector<int64_t>();
  for (size_t i = 1; i < at.size(); ++i) {
    const int64_t before = values[static_cast<size_t>(at[i - 1])],
                  here = values[static_cast<size_t>(at[i])];
    CHECK((before < here || at[i - 1] < at[i]));
  }
}

TEST_CASE("activations of -inf have their limits") {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({-kInf}, {.dtype = dtype});
    for (const Tensor& y : {silu(x), gelu(x), mish(x)}) {
      CHECK(y.item() == 0.0);
      CHECK(std::signbit(y.item()));
    }
  }
}

TEST_CASE("NaN coordinates of grid_sample count as -1") {
  const Tensor x =
      arange(Scalar(1), Scalar(5), Scalar(1), {.dtype = kFloat32}).reshape({1, 1, 2, 2});
  for (const GridMode mode : {GridMode::nearest, GridMode::bilinear, GridMode::bicubic}) {
    for (const GridPadding padding :
         {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
      const auto at = [&](double where) {
        return grid_sample(x, full({1, 1, 1, 2}, where), {.mode = mode, .padding_mode = padding});
      };
      CHECK(equal(at(std::nan("")), at(-1.0)));
    }
  }
}

TEST_CASE("of several NaN in a window max pooling takes the first") {
  const Tensor x = tensor({1.0, std::nan(""), std::nan(""), 2.0}, {.requires_grad = true});
  const ValuesIndices found = max_pool2d_with_indices(x.reshape({1, 1, 2, 2}), {2, 2});
  CHECK(std::isnan(found.values.item()));
  CHECK(found.indices.item<int64_t>() == 1);
  CHECK(grad(sum(found.values), x).to_vector<double>() == Values{0, 1, 0, 0});
}

TEST_CASE("logsumexp of -inf alone has the gradient 0") {
  const Tensor x = full({2}, -kInf, {.requires_grad = true});
  CHECK(logsumexp(x, {0}).item() == -kInf);
  CHECK(grad(logsumexp(x, {0}), x).to_vector<double>() == Values{0, 0});
  CHECK(grad(sum(logcumsumexp(x, 0)), x).to_vector<double>() == Values{0, 0});
}

TEST_CASE("a negative norm of nothing is infinite") {
  for (const double p : {-1.0, -2.0, -0.5}) CHECK(norm(zeros({0}), p).item() == kInf);
}

TEST_CASE("constants in derivatives are doubles") {
  const Tensor x = tensor({0.5}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(grad(sum(hardsigmoid(x)), x).item() == 1.0 / 6.0);
  const Tensor y = tensor({-0.3}, {.dtype = kFloat64, .requires_grad = true});
  CHECK_THAT(grad(sum(celu(y, 0.7)), y).item(), WithinAbs(std::exp(-0.3 / 0.7), 1e-15));
}

TEST_CASE("a view made without recording may be written to") {
  const Tensor leaf = ones({2, 3}, {.requires_grad = true});
  Tensor view;
  {
    const NoGrad no_grad;
    view = leaf[1];
  }
  view.add_(1);
  CHECK(leaf.to_vector<double>() == Values{1, 1, 1, 2, 2, 2});
  CHECK_FALSE(view.requires_grad());
}

TEST_CASE("every difference on the page has a test, and every test of the list exists") {
  const std::set<std::string> names = test_names();
  std::istringstream page(text_of(HERO_GOLDEN_DIR "/../../docs/differences.md"));
  std::set<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ") || line.starts_with("| | PyTorch")) continue;
    const std::string row = line.substr(2, line.find(" | ") - 2);
    INFO(row);
    CHECK(rows.insert(row).second);
  }
  CHECK(rows.size() > 25);
  std::istringstream list(text_of(HERO_GOLDEN_DIR "/differences.tsv"));
  std::set<std::string> tested;
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with("#")) continue;
    INFO(line);
    const size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    CHECK(rows.contains(line.substr(0, tab)));
    CHECK(names.contains(line.substr(tab + 1)));
    tested.insert(line.substr(0, tab));
  }
  for (const std::string& row : rows) {
    INFO("tests/golden/differences.tsv names no test of: " << row);
    CHECK(tested.contains(row));
  }
}
